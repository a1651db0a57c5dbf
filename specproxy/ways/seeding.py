"""Seeding: a stock llama-server whose n-gram pool takes drafted blocks.

Invariant: whatever is leased or begun here is given back when its context ends; the seed slot is
leased to nobody.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog

from specproxy.admission import Admission, single_prompt
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.observed import Observed, ObservedAnswer
from specproxy.core.slots import Lease, SlotLeases
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
from specproxy.target.seeding import MOST_SHARES, Seeder
from specproxy.target.steering import steered
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


def most_proposed(facts: TargetFacts, settings: SeedingSettings) -> int:
    """Tokens beyond which it does not matter how many a pool proposes: no more are drafted, or the
    context has no room for them."""
    return min(settings.lookahead_tokens, facts.num_context // 4)


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
        n_max = await probe.num_proposed(n_match, most_proposed(facts, settings)) or N_MAX
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
        self._observed = observed
        self._rng = rng
        self._tokens = TargetTokens(client)
        self._leases = SlotLeases(facts.num_slots - 1)
        self._leading = asyncio.Lock()
        self._queue: set[asyncio.Event] = set()
        self._is_over = False
        self.worth = Worth(pool.n_match, pool.n_max)
        observed.alone.cost = self.worth.cost
        self._seeder = Seeder(
            client,
            n_match=pool.n_match,
            seed_slot=facts.seed_slot,
            max_tokens=settings.max_seed_tokens,
            num_context=facts.num_context,
            worth=self.worth,
            tell_seeded=self._seeded,
        )
        self._window = Window(
            block_tokens=settings.block_tokens,
            lookahead_tokens=settings.lookahead_tokens,
            branch_tokens=settings.branch_tokens,
            sure_tokens=6,
            min_reach=0.02,
            branch_share=0.5,
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

    def end(self) -> None:
        """That life of the target is over, and its slots with it: nobody waits for one of them."""
        self._is_over = True
        for waiting in self._queue:
            waiting.set()

    async def _warm(
        self, warmed: Callable[[], None], idle: Callable[[], Awaitable[object]]
    ) -> None:
        """Warm the lengths that passes will have, where the link makes that worth while."""
        facts, settings = self._facts, self._settings
        warmer = Warmer(
            self._client,
            seed_slot=facts.seed_slot,
            num_vocab=facts.num_vocab,
            rng=self._rng,
            tell_used=self._seeder.forget,
        )
        try:
            num_shares = min(facts.num_slots - 1, MOST_SHARES)
            await warmer.warm_up(settings.warm, num_shares * settings.warm_tokens, idle)
        finally:
            warmed()

    @asynccontextmanager
    async def lease(self, transcript: str, *, named: bool = True) -> AsyncIterator[int | None]:
        """A slot of the target for one answer, waiting for one if need be; None: that life of the
        target is over, and its slots with it.

        Args:
            named: the request will name it; else the target is led to it.
        """
        granted = asyncio.Event()
        lease = self._leases.acquire(transcript, granted.set)
        self._queue.add(granted)
        try:
            await granted.wait()
            if self._is_over:
                yield None
                return
            async with AsyncExitStack() as stack:
                if not named:
                    await stack.enter_async_context(self._led_to(lease))
                yield lease.slot
        finally:
            self._queue.discard(granted)
            self._leases.release(lease)

    @asynccontextmanager
    async def _led_to(self, lease: Lease) -> AsyncIterator[None]:
        """The target gives the lease's slot to what comes next and names none."""
        async with AsyncExitStack() as stack:
            async with self._leading:  # what leads one must not keep another from its slot
                rivals = self._leases.rivals(lease, seeding=self._seeds_flow)
                await stack.enter_async_context(steered(self._client, rivals))
                self._leases.used(rivals)
            yield

    @contextmanager
    def beside(self, num_prompts: int, num_choices: int, slot: int | None) -> Iterator[None]:
        """For an answer that waits for no slot: those that the target gives it are taken.

        Args:
            num_choices: of each prompt.
            slot: all run in this one; None: the target chooses.
        """
        if slot is not None:
            leases = self._leases.take_named(slot)
        else:
            leases = [
                lease
                for _ in range(min(num_prompts, self._facts.num_slots))
                for lease in self._leases.take(num_choices, seeding=self._seeds_flow)
            ]
        takes_seed_slot = any(lease.slot == self._facts.seed_slot for lease in leases)
        try:
            if takes_seed_slot:
                self._seeder.forget()
            yield
        finally:
            if takes_seed_slot:
                self._seeder.forget()
            for lease in leases:
                self._leases.release(lease)

    @property
    def _seeds_flow(self) -> bool:
        """The seed slot is in use, again and again."""
        return not self._seeder.is_at_rest

    def _seeded(self, now_s: float, duration_s: float, failed: bool) -> None:
        self._observed.seeded(now_s, duration_s, failed=failed)
        if not failed:
            self._leases.used([self._facts.seed_slot])

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
