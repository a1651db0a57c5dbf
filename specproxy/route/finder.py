"""What a target does not say of itself, found by asking it."""

import random

from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.family import check_family
from specproxy.settings import SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.tokens import TargetTokens
from specproxy.ways.seeding import PoolFacts, find_pool


class Finder:
    """Asks. Who runs the target himself may know the answers: `testing.known`."""

    async def num_shared(self, client: TargetClient, facts: TargetFacts, draft: Vocabulary) -> int:
        """The number of ids that draft and target both have.

        Raises:
            VocabularyMismatch: they are not of one family.
            TargetError: the target did not answer.
        """
        tokens = TargetTokens(client)
        return await check_family(draft, tokens, draft_name=draft.name, target_name=facts.model)

    async def pool(
        self,
        client: TargetClient,
        facts: TargetFacts,
        settings: SeedingSettings,
        rng: random.Random,
    ) -> PoolFacts:
        """The target's n-gram pool.

        Raises:
            TargetError: the target did not answer.
        """
        return await find_pool(client, facts, settings, rng)
