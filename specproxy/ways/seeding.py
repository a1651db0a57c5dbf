"""Seeding: a stock llama-server whose n-gram pool takes drafted blocks.

Invariant: whatever is leased or begun here is given back when its context ends; the seed slot is
leased to nobody.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from specproxy.admission import Admission, single_prompt
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.observed import Observed, ObservedAnswer
from specproxy.core.slots import SlotLeases
from specproxy.core.tasks import spawn, stop
from specproxy.core.window import Window
from specproxy.core.worth import N_MAX, Worth
from specproxy.draft.protocol import Drafter
from specproxy.probe.verdicts import SEEDING_FLAGS
from specproxy.session import Session
from specproxy.settings import SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.probe import PoolProbe
from specproxy.target.seeding import Seeder
from specproxy.target.tokens import TargetTokens
from specproxy.target.warmup import Warmer

log = structlog.get_logger(__name__)

NO_POOL = f"the target's n-gram pool takes no seeds: start it with {SEEDING_FLAGS}"
NO_SEED_SLOT = "the target has one slot, and seeds need one of their own: start it with -np 2"


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A target's n-gram pool.

    Attributes:
        n_match: its key length; None: it takes no seeds.
        n_max: tokens that it proposes at once.
        drafts_itself: the target drafts where nothing is seeded.
    """

    n_match: int | None
    n_max: int = N_MAX
    drafts_itself: bool = False


async def find_pool(
    client: TargetClient, facts: TargetFacts, settings: SeedingSettings, rng: random.Random
) -> PoolFacts:
    """Find it by seeding.

    Raises:
        TargetError: it did not answer.
    """
    probe = PoolProbe(client, num_vocab=facts.num_vocab, seed_slot=facts.seed_slot, rng=rng)
    n_match = await probe.n_match(settings.n_match)
    if n_match is not None and settings.n_match not in (None, n_match):
        log.warning("seeding.n_match is not the target's", found=n_match)
    n_max = N_MAX
    if n_match is not None and not probe.drafts_itself:
        n_max = await probe.num_proposed(n_match, settings.lookahead_tokens) or N_MAX
    return PoolFacts(n_match, n_max, probe.drafts_itself)


class SeedingWay:
    """One life of a target that takes seeds. Run `run` for as long as it lasts.

    Attributes:
        worth: whether and how far seeding pays.
    """

    def __init__(
        self,
        client: TargetClient,
        drafter: Drafter,
        settings: SeedingSettings,
        facts: TargetFacts,
        *,
        pool: PoolFacts,
        acceptance: AcceptanceModel,
        observed: Observed,
        rng: random.Random,
    ) -> None:
        assert pool.n_match is not None, "a pool that takes no seeds"
        self._client = client
        self._drafter = drafter
        self._settings = settings
        self._facts = facts
        self._acceptance = acceptance
        self._rng = rng
        self._tokens = TargetTokens(client)
        self._leases = SlotLeases(facts.num_slots - 1)
        self.worth = Worth(pool.n_match, pool.n_max)
        observed.alone.cost = self.worth.cost
        self._seeder = Seeder(
            client,
            n_match=pool.n_match,
            seed_slot=facts.seed_slot,
            max_tokens=settings.max_seed_tokens,
            num_context=facts.num_context,
            worth=self.worth,
            tell_seeded=lambda now_s, duration_s, failed: observed.seeded(
                now_s, duration_s, failed=failed
            ),
        )
        self._window = Window(
            block_tokens=settings.block_tokens,
            lookahead_tokens=settings.lookahead_tokens,
            branch_tokens=settings.branch_tokens,
            sure_tokens=6,
            min_reach=0.1,
            branch_share=1.0,
        )

    def __repr__(self) -> str:
        return f"<SeedingWay {self._seeder!r} {self._leases!r}>"

    @property
    def num_waiting(self) -> int:
        """Answers that wait for a slot."""
        return self._leases.num_waiting

    @property
    def is_at_rest(self) -> bool:
        """No slot is leased, no seed is on its way."""
        return not self._leases.num_busy and self._seeder.is_at_rest

    async def run(self, warmed: Callable[[], None], idle: Callable[[], Awaitable[object]]) -> None:
        """Seed, and warm lengths in between, until cancelled.

        Args:
            warmed: called once there is nothing left to warm.
            idle: returns when no answer is running.
        """
        warming = spawn(self._warm(warmed, idle), name="warm-up")
        try:
            await self._seeder.run()
        finally:
            await stop(warming)

    async def _warm(
        self, warmed: Callable[[], None], idle: Callable[[], Awaitable[object]]
    ) -> None:
        """Warm the lengths that passes will have, where the link makes that worth while."""
        facts, settings = self._facts, self._settings
        warmer = Warmer(
            self._client, seed_slot=facts.seed_slot, num_vocab=facts.num_vocab, rng=self._rng
        )
        try:
            await warmer.warm_up(settings.warm, settings.warm_tokens, idle)
        finally:
            warmed()

    @asynccontextmanager
    async def lease(self, transcript: str) -> AsyncIterator[int]:
        """A slot of the target for one answer, waiting for one if need be."""
        granted = asyncio.Event()
        lease = self._leases.acquire(transcript, granted.set)
        try:
            await granted.wait()
            assert lease.slot is not None, "granted without a slot"
            yield lease.slot
        finally:
            self._leases.release(lease)

    def session(self, observed: ObservedAnswer) -> Session:
        """Speculation for one answer."""
        return Session(
            self._drafter,
            self._seeder,
            self.worth.window(self._window),
            self._acceptance,
            self.worth,
            observed,
        )

    async def prompt(self, admission: Admission) -> Sequence[int]:
        """Ids of the prompt, from the target's own template and tokenizer.

        Raises:
            TargetError: it did not say.
        """
        if admission.chat is not None:
            return await self._tokens.chat_prompt(admission.chat)
        prompt = single_prompt(admission.body.get("prompt"))
        if isinstance(prompt, list):
            return prompt
        return await self._tokens.tokenize(prompt or "", add_special=True)
