"""One target and its draft: what is known of them now, and whether answers are sped up.

A route starts without knowledge, and every answer passes through untouched. In the background
it learns: is the target there, do the vocabularies match, does the pool take seeds. Then it
seeds, or pushes drafts to a coordinator, until the target goes away or comes back as another
process; then it learns anew.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import structlog

from specproxy.admission import Admission, single_prompt
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.horizon import DraftPace, PassPace
from specproxy.core.slots import SlotLeases
from specproxy.core.stats import DraftCounts
from specproxy.core.tasks import spawn, stop
from specproxy.core.window import Window
from specproxy.draft.family import check_family
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftError, TargetError
from specproxy.session import Session
from specproxy.settings import SeedingSettings
from specproxy.target.channel import DraftChannel
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.target.probe import probe_pool
from specproxy.target.seeding import Seeder
from specproxy.target.tokens import TargetTokens
from specproxy.target.warmup import Warmer
from specproxy.verified import VerifiedSession

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""How often the target is looked at, to see it come, go and restart."""


COORDINATOR_WINDOW = Window(
    block_tokens=40,
    lookahead_tokens=40,
    near_tokens=3,
    sure_tokens=24,
    min_reach=0.05,
    branch_tokens=5,
    min_branch_reach=0.08,
    branch_share=1.0,
)
"""Of a target whose next pass verifies whatever is drafted: no seed to wait for, no plain pass."""


class Mode(Enum):
    """What a route does with generation requests."""

    STARTING = "starting"
    PASSTHROUGH = "passthrough"
    SEEDING = "seeding"
    COORDINATOR = "coordinator"


class Route:
    """A named target. Run `serve` for as long as it is used.

    Args:
        drafter: None leaves every answer to the target alone.

    Attributes:
        poll_s: how often the target is looked at.
        mode, reason: what it does with answers now, and why.
        ready: set while nothing is left to learn, lengths warmed where that pays.
        counts, acceptance: of all answers so far.
    """

    def __init__(
        self,
        name: str,
        client: TargetClient,
        drafter: Drafter | None,
        settings: SeedingSettings,
        *,
        rng: random.Random | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.drafter = drafter
        self.counts = DraftCounts()
        self.acceptance = AcceptanceModel()
        self.draft_pace = DraftPace()
        self.pass_pace = PassPace()
        self.mode = Mode.STARTING
        self.reason = "the target has not been looked at yet"
        self.ready = asyncio.Event()
        self.poll_s = POLL_S
        self._settings = settings
        self._window = Window(
            block_tokens=settings.block_tokens,
            lookahead_tokens=settings.lookahead_tokens,
            branch_tokens=settings.branch_tokens,
        )
        self._coordinator_window = COORDINATOR_WINDOW
        self._rng = rng or random.Random()
        self._tokens = TargetTokens(client)
        self._seeder: Seeder | None = None
        self._leases: SlotLeases | None = None
        self._channel: DraftChannel | None = None
        self.num_running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return f"<Route {self.name} {self.mode.value} running={self.num_running}>"

    @property
    def num_waiting(self) -> int:
        """Answers that wait for a slot."""
        return self._leases.num_waiting if self._leases is not None else 0

    # -- learning ---------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep the mode true to the target until cancelled."""
        while True:
            try:
                facts = await read_facts(self.client)
                await self._learn(facts)
                await self._watch(facts)
            except TargetError as error:
                self._settle(Mode.STARTING, str(error))
            except Exception as error:
                log.exception("the target could not be looked at", route=self.name)
                self._settle(Mode.STARTING, f"looking at the target failed: {error!r}")
            await asyncio.sleep(self.poll_s)

    async def _learn(self, facts: TargetFacts) -> None:
        """Find out what this life of the target allows, and settle on a mode."""
        if self.drafter is None:
            return self._settle(Mode.PASSTHROUGH, "no draft model is configured")
        if self._settings.mode == "off":
            return self._settle(Mode.PASSTHROUGH, "seeding.mode is off")
        if facts.num_slots < 2 and not facts.takes_drafts:
            return self._settle(
                Mode.PASSTHROUGH,
                "the target has one slot, and seeds need one of their own: start it with -np 2",
            )
        try:
            vocabulary = self.drafter.vocabulary
            num_shared = await check_family(
                vocabulary, self._tokens, draft_name=vocabulary.name, target_name=facts.model
            )
            self.drafter.limit_vocabulary(num_shared)
        except DraftError as error:
            return self._settle(Mode.PASSTHROUGH, str(error))
        if facts.takes_drafts:
            self._channel = DraftChannel(self.client)
            return self._settle(Mode.STARTING, "the draft channel is not open yet")
        n_match = await self._probe(facts)
        if n_match is None:
            return self._settle(
                Mode.PASSTHROUGH,
                "the target's n-gram pool takes no seeds: start it with --spec-type ngram-mod"
                " --spec-ngram-mod-n-match 6 --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 12",
            )
        self._leases = SlotLeases(facts.num_slots - 1)
        self._seeder = Seeder(
            self.client,
            n_match=n_match,
            seed_slot=facts.seed_slot,
            max_tokens=self._settings.max_seed_tokens,
            num_context=facts.num_context,
        )
        self._settle(Mode.SEEDING, f"the target takes seeds, n_match {n_match}")
        return None

    async def _probe(self, facts: TargetFacts) -> int | None:
        """Key length of the target's pool; None if it takes no seeds."""
        for _ in range(2):  # a near-tie between two runs of the target can hide the pool once
            pool = await probe_pool(
                self.client,
                num_vocab=facts.num_vocab,
                seed_slot=facts.seed_slot,
                rng=self._rng,
            )
            if pool.n_match is not None:
                if self._settings.n_match not in (None, pool.n_match):
                    log.warning("seeding.n_match is not the target's", found=pool.n_match)
                return pool.n_match
        return None

    async def _watch(self, facts: TargetFacts) -> None:
        """Seed while the target stays the same process; returns or raises when it does not."""
        tasks = []
        if self._seeder is not None:
            tasks = [
                spawn(self._seeder.run(), name=f"seeder {self.name}"),
                spawn(self._warm(facts), name=f"warm-up {self.name}"),
            ]
        if self._channel is not None:
            tasks = [spawn(self._hold(self._channel), name=f"draft channel {self.name}")]
        try:
            while True:
                await asyncio.sleep(self.poll_s)
                if await read_facts(self.client) != facts:
                    return self._settle(Mode.STARTING, "the target was restarted")
        finally:
            for task in tasks:
                await stop(task)
            self._seeder = self._leases = self._channel = None

    async def _hold(self, channel: DraftChannel) -> None:
        """Keep the draft channel open; while it is down answers pass through, plain."""
        while True:
            holding = spawn(channel.run(), name="draft channel")
            try:
                await channel.opened(holding)
                self._settle(Mode.COORDINATOR, "the target verifies our drafts itself")
                await holding
                reason = "the coordinator closed the draft channel"
            except TargetError as error:
                reason = str(error)
            finally:
                await stop(holding)
            self._settle(Mode.STARTING, reason)
            await asyncio.sleep(self.poll_s)

    async def _warm(self, facts: TargetFacts) -> None:
        """Warm the lengths that passes will have, where the link makes that worth while."""
        try:
            warmer = Warmer(
                self.client,
                seed_slot=facts.seed_slot,
                num_vocab=facts.num_vocab,
                rng=self._rng,
            )
            longest = self._settings.warm_tokens
            wanted = self._settings.warm
            if wanted == "always" or (wanted == "auto" and await warmer.pays(longest)):
                await warmer.warm(range(2, longest), self._when_idle)
            log.info("warmed", route=self.name, num_lengths=warmer.num_warmed)
        except TargetError as error:
            log.warning("warming stopped", route=self.name, reason=str(error))
        finally:
            self.ready.set()

    async def _when_idle(self) -> None:
        await self._idle.wait()

    def _settle(self, mode: Mode, reason: str) -> None:
        if (mode, reason) != (self.mode, self.reason):
            log.info("route", route=self.name, mode=mode.value, reason=reason)
        self.mode, self.reason = mode, reason
        if mode in (Mode.PASSTHROUGH, Mode.COORDINATOR):
            self.ready.set()
        else:
            self.ready.clear()

    # -- serving ----------------------------------------------------------------------------

    @property
    def speculates(self) -> bool:
        """Whether an answer that starts now can be sped up."""
        return (
            self.mode is Mode.SEEDING
            and self._seeder is not None
            and self.drafter is not None
            and self.drafter.alive
        )

    @property
    def verifies(self) -> bool:
        """Whether an answer that starts now can have its drafts verified by a coordinator."""
        return (
            self.mode is Mode.COORDINATOR
            and self._channel is not None
            and self._channel.is_open
            and self.drafter is not None
            and self.drafter.alive
        )

    @asynccontextmanager
    async def verified(self) -> AsyncIterator[tuple[VerifiedSession, str] | None]:
        """Speculation for one answer of a coordinator, and the header its request needs.

        None: it goes without.
        """
        if not self.verifies or self.drafter is None or self._channel is None:
            yield None
            return
        session = VerifiedSession(
            self.drafter,
            self._coordinator_window,
            self.acceptance,
            self.draft_pace,
            self.pass_pace,
        )
        with self._channel.answer(session.hear) as drafts:
            if drafts is None:
                yield None
                return
            async with self._running(session, session.speculate(drafts)):
                yield session, drafts.header

    @asynccontextmanager
    async def lease(self, transcript: str) -> AsyncIterator[int | None]:
        """A slot of the target for one answer, waiting for one if need be; None: any slot."""
        leases = self._leases
        if leases is None:
            yield None
            return
        granted = asyncio.Event()
        lease = leases.acquire(transcript, granted.set)
        try:
            await granted.wait()
            yield lease.slot
        finally:
            leases.release(lease)

    @asynccontextmanager
    async def session(self, admission: Admission) -> AsyncIterator[Session | None]:
        """Speculation for one answer while the context lasts; None: it goes without."""
        if not self.speculates or self.drafter is None or self._seeder is None:
            yield None
            return
        session = Session(self.drafter, self._seeder, self._window, self.acceptance)
        async with self._running(session, session.speculate(self._prompt(admission))):
            yield session

    @asynccontextmanager
    async def _running(
        self, session: Session | VerifiedSession, work: Coroutine[Any, Any, None]
    ) -> AsyncIterator[None]:
        """Speculate while the context lasts; count the answer afterwards."""
        self.num_running += 1
        self._idle.clear()
        task = spawn(work, name="speculate")
        try:
            yield
        finally:
            try:
                await stop(task)
            finally:
                self.counts.add(session.counts)
                self.num_running -= 1
                if not self.num_running:
                    self._idle.set()

    async def _prompt(self, admission: Admission) -> Sequence[int]:
        """Ids of the prompt, from the target's own template and tokenizer."""
        if admission.chat is not None:
            return await self._tokens.chat_prompt(admission.chat)
        prompt = single_prompt(admission.body.get("prompt"))
        if isinstance(prompt, list):
            return prompt
        return await self._tokens.tokenize(prompt or "", add_special=True)
