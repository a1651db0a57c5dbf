"""What a route would find out about scripted targets, told without asking them.

Invariant: told is only what asking would find; a test compares the two. All else is asked for: of
processes that began later, of pools and vocabularies that are not plain. As asking does, telling
leaves the seed slot as the one that was used last.
"""

import random

from specproxy.core.vocabulary import Vocabulary
from specproxy.route.finder import Finder
from specproxy.settings import SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.seeding import plant
from specproxy.testing.target import ScriptedTarget
from specproxy.ways.seeding import PoolFacts, most_proposed

PLAIN_KEYS = range(3, 25)
"""Lengths of keys that no chance finds and that every probe does."""


class Known(Finder):
    """
    Args:
        targets: what runs in them now is known.
    """

    def __init__(self, *targets: ScriptedTarget) -> None:
        self._lives = {
            target.life: (target.language.vocabulary, target.pool)
            for target in targets
            if not target.lacking
        }

    async def num_shared(self, client: TargetClient, facts: TargetFacts, draft: Vocabulary) -> int:
        vocabulary, _ = self._lives.get(facts.life, (None, None))
        if vocabulary is not None and vocabulary.is_like(draft):
            return len(draft)
        return await super().num_shared(client, facts, draft)

    async def pool(
        self,
        client: TargetClient,
        facts: TargetFacts,
        settings: SeedingSettings,
        rng: random.Random,
    ) -> PoolFacts:
        known = self._pool(facts, settings)
        if known is None:
            return await super().pool(client, facts, settings, rng)
        await plant(client, [facts.num_vocab - 1], seed_slot=facts.seed_slot)
        return known

    def _pool(self, facts: TargetFacts, settings: SeedingSettings) -> PoolFacts | None:
        if facts.life not in self._lives:
            return None
        _, pool = self._lives[facts.life]
        if pool is None:
            return PoolFacts(None)
        is_plain = pool.n_match in PLAIN_KEYS and pool.n_min == 1
        if not is_plain or settings.n_match not in (None, pool.n_match):
            return None
        return PoolFacts(pool.n_match, min(pool.n_max, most_proposed(facts, settings)))
