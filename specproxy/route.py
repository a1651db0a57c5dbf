"""One target and its draft: what is known of them now, and whether answers are sped up.

A route starts without knowledge, and every answer passes through untouched. In the background
it learns: is the target there, do the vocabularies match, which way can it be sped up. That way
lasts until the target goes away or comes back as another process; then it learns anew.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import structlog

from specproxy.admission import Admission
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.horizon import DraftPace, PassPace
from specproxy.core.observed import Observed, ObservedAnswer
from specproxy.core.stats import DraftCounts
from specproxy.core.tasks import spawn, stop
from specproxy.draft.family import check_family
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftError, TargetError
from specproxy.fanned import FannedSession
from specproxy.load import Load
from specproxy.session import Session
from specproxy.settings import FanoutSettings, SeedingSettings
from specproxy.state import RouteState
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.target.tokens import TargetTokens
from specproxy.verified import VerifiedSession
from specproxy.ways.coordinator import CoordinatorWay
from specproxy.ways.fanout import FanoutWay
from specproxy.ways.plain import PlainRequest
from specproxy.ways.seeding import NO_POOL, NO_SEED_SLOT, SeedingWay, find_n_match

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""How often the target is looked at, to see it come, go and restart."""
SAVE_S = 60.0
"""How often what was learned is written down while answers run."""


class Mode(Enum):
    """What a route does with generation requests."""

    STARTING = "starting"
    PASSTHROUGH = "passthrough"
    SEEDING = "seeding"
    FANOUT = "fanout"
    COORDINATOR = "coordinator"


class Route:
    """A named target. Run `serve` for as long as it is used.

    Args:
        drafter: None leaves every answer to the target alone.
        state_folder: where what is learned is kept; None keeps nothing.

    Attributes:
        poll_s: how often the target is looked at.
        mode, reason: what it does with answers now, and why.
        ready: set while nothing is left to learn, lengths warmed where that pays.
        facts: what the target said of itself; None while it is away.
        counts, acceptance, draft_pace, pass_pace, observed: of all answers so far.
        num_running: answers that are being sped up.
        load: all answers, sped up or not, and whether drafts pay with so many.
    """

    def __init__(
        self,
        name: str,
        client: TargetClient,
        drafter: Drafter | None,
        settings: SeedingSettings,
        *,
        fanout: FanoutSettings | None = None,
        rng: random.Random | None = None,
        state_folder: Path | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.drafter = drafter
        self.counts = DraftCounts()
        self.acceptance = AcceptanceModel()
        self.draft_pace = DraftPace()
        self.pass_pace = PassPace()
        self.observed = Observed(time.time() - time.monotonic())
        self.facts: TargetFacts | None = None
        self.mode = Mode.STARTING
        self.reason = "the target has not been looked at yet"
        self.ready = asyncio.Event()
        self.poll_s = POLL_S
        self.num_running = 0
        self.load = Load(time.monotonic)
        self._settings = settings
        self._fanout = fanout or FanoutSettings()
        self._rng = rng or random.Random()
        self._state = RouteState(state_folder, name, self.acceptance, self.observed)
        self._way: SeedingWay | FanoutWay | CoordinatorWay | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return f"<Route {self.name} {self.mode.value} running={self.num_running}>"

    @property
    def num_waiting(self) -> int:
        """Answers that wait for a slot."""
        return self._way.num_waiting if isinstance(self._way, SeedingWay) else 0

    @property
    def is_at_rest(self) -> bool:
        """Nothing of any answer is left."""
        at_rest = not isinstance(self._way, SeedingWay) or self._way.is_at_rest
        return at_rest and not self.num_running and not self.num_waiting

    # -- learning ---------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep the mode true to the target until cancelled."""
        try:
            await self._serve()
        finally:
            self._state.save()

    async def _serve(self) -> None:
        while True:
            try:
                facts = self.facts = await read_facts(self.client)
                await self._learn(facts)
                await self._watch(facts)
            except TargetError as error:
                self._settle(Mode.STARTING, str(error))
            except Exception as error:
                log.exception("the target could not be looked at", route=self.name)
                self._settle(Mode.STARTING, f"looking at the target failed: {error!r}")
            self.facts = None
            await asyncio.sleep(self.poll_s)

    async def _learn(self, facts: TargetFacts) -> None:
        """Find out what this life of the target allows, and settle on a mode."""
        if self.drafter is None:
            return self._settle(Mode.PASSTHROUGH, "no draft model is loaded")
        is_off = self._settings.mode == "off" and self._fanout.mode == "off"
        if is_off and not facts.takes_drafts:
            return self._settle(Mode.PASSTHROUGH, "seeding.mode is off, and fanout.mode")
        if facts.num_slots < 2 and not facts.takes_drafts:
            return self._settle(Mode.PASSTHROUGH, NO_SEED_SLOT)
        try:
            await self._check_draft(self.drafter, facts)
        except DraftError as error:
            return self._settle(Mode.PASSTHROUGH, str(error))
        self._state.recall(self.drafter.vocabulary.name, facts.model, time.monotonic())
        if facts.takes_drafts:
            self._way = CoordinatorWay(
                self.client,
                self.drafter,
                acceptance=self.acceptance,
                draft_pace=self.draft_pace,
                pass_pace=self.pass_pace,
            )
            return self._settle(Mode.STARTING, "the draft channel is not open yet")
        n_match, no_pool = None, "seeding.mode is off"
        if self._settings.mode != "off":
            n_match, no_pool = (
                await find_n_match(self.client, facts, self._settings, self._rng),
                NO_POOL,
            )
        if n_match is None:
            return await self._learn_fanout(self.drafter, facts, no_pool)
        self._way = SeedingWay(
            self.client,
            self.drafter,
            self._settings,
            facts,
            n_match=n_match,
            acceptance=self.acceptance,
            observed=self.observed,
            rng=self._rng,
        )
        return self._settle(Mode.SEEDING, f"the target takes seeds, n_match {n_match}")

    async def _learn_fanout(self, drafter: Drafter, facts: TargetFacts, no_pool: str) -> None:
        """Settle on fan-out for a target that takes no seeds, if it allows that."""
        if self._fanout.mode == "off":
            return self._settle(Mode.PASSTHROUGH, no_pool)
        way = await FanoutWay.found(
            self.client,
            drafter,
            self._fanout,
            facts,
            acceptance=self.acceptance,
            draft_pace=self.draft_pace,
            rng=self._rng,
        )
        if isinstance(way, str):
            return self._settle(Mode.PASSTHROUGH, f"{no_pool}; {way}")
        self._way = way
        return self._settle(Mode.FANOUT, f"{facts.num_slots} slots take prompts side by side")

    async def _check_draft(self, drafter: Drafter, facts: TargetFacts) -> None:
        """
        Raises:
            DraftError: it is no draft for this target.
        """
        vocabulary, tokens = drafter.vocabulary, TargetTokens(self.client)
        num_shared = await check_family(
            vocabulary, tokens, draft_name=vocabulary.name, target_name=facts.model
        )
        drafter.limit_vocabulary(num_shared)

    async def _watch(self, facts: TargetFacts) -> None:
        """Go the way while the target stays the same process; returns or raises when it does
        not."""
        task = None
        if isinstance(self._way, SeedingWay | FanoutWay):
            work = self._way.run(self.ready.set, self._idle.wait)
            task = spawn(work, name=f"{self.mode.value} {self.name}")
        elif isinstance(self._way, CoordinatorWay):
            work = self._way.run(self._opened, self._closed, rest_s=self.poll_s)
            task = spawn(work, name=f"coordinator {self.name}")
        saved_s = time.monotonic()
        try:
            while True:
                await asyncio.sleep(self.poll_s)
                if time.monotonic() - saved_s >= SAVE_S and not self._state.is_saved:
                    saved_s = time.monotonic()
                    await asyncio.to_thread(self._state.save)
                if await read_facts(self.client) != facts:
                    return self._settle(Mode.STARTING, "the target was restarted")
        finally:
            if task is not None:
                await stop(task)
            self._way = None

    def _opened(self) -> None:
        self._settle(Mode.COORDINATOR, "the target verifies our drafts itself")

    def _closed(self, reason: str) -> None:
        self._settle(Mode.STARTING, reason)

    def _settle(self, mode: Mode, reason: str) -> None:
        if (mode, reason) != (self.mode, self.reason):
            log.info("route", route=self.name, mode=mode.value, reason=reason)
            self.observed.decided(time.monotonic(), mode.value, reason)
        self.mode, self.reason = mode, reason
        if mode in (Mode.PASSTHROUGH, Mode.COORDINATOR):
            self.ready.set()
        else:
            self.ready.clear()

    # -- serving ----------------------------------------------------------------------------

    @property
    def speculates(self) -> bool:
        """Whether an answer that starts now can be sped up by seeds."""
        return self.mode is Mode.SEEDING and self._has_draft and isinstance(self._way, SeedingWay)

    @property
    def fans(self) -> FanoutWay | None:
        """The way, if an answer that starts now can be sped up by fan-out."""
        way = self._way
        return way if self._has_draft and isinstance(way, FanoutWay) else None

    @property
    def verifies(self) -> bool:
        """Whether an answer that starts now can have its drafts verified by a coordinator."""
        way = self._way
        return self._has_draft and isinstance(way, CoordinatorWay) and way.is_open

    @property
    def _has_draft(self) -> bool:
        return self.drafter is not None and self.drafter.alive

    @asynccontextmanager
    async def verified(self, kind: str) -> AsyncIterator[tuple[VerifiedSession, str] | None]:
        """Speculation for one answer of a coordinator, and the header its request needs.

        None: it goes without.
        """
        if not self.verifies or not isinstance(self._way, CoordinatorWay):
            yield None
            return
        with self._observing(kind) as observed, self._way.answer(observed) as begun:
            if begun is None:
                yield None
                return
            session, drafts = begun
            async with self._running(session, session.speculate(drafts)):
                yield session, drafts.header

    @asynccontextmanager
    async def lease(self, transcript: str) -> AsyncIterator[int | None]:
        """A slot of the target for one answer, waiting for one if need be; None: any slot."""
        if isinstance(self._way, FanoutWay):
            with self._way.beside():
                yield None
            return
        if not isinstance(self._way, SeedingWay):
            yield None
            return
        began_s = time.monotonic()
        async with self._way.lease(transcript) as slot:
            now_s = time.monotonic()
            self.observed.waited(now_s, now_s - began_s)
            yield slot

    @asynccontextmanager
    async def session(self, admission: Admission) -> AsyncIterator[Session | None]:
        """Speculation for one answer while the context lasts; None: it goes without."""
        way = self._way
        if not self.speculates or not isinstance(way, SeedingWay):
            yield None
            return
        with self._observing(admission.kind, has_pool=True) as observed:
            session = way.session(observed)
            async with self._running(session, session.speculate(way.prompt(admission))):
                yield session

    @asynccontextmanager
    async def fanned(
        self, way: FanoutWay, request: PlainRequest, prompt: list[int]
    ) -> AsyncIterator[FannedSession | None]:
        """Speculation for one answer in rounds; None: it goes without."""
        with self._observing(request.kind) as observed:
            async with way.answer(request, prompt, observed) as session:
                if session is None:
                    yield None
                    return
                async with self._running(session, session.speculate()):
                    yield session

    @contextmanager
    def _observing(self, kind: str, *, has_pool: bool = False) -> Iterator[ObservedAnswer]:
        """Show one answer while the context lasts."""
        request_id = structlog.contextvars.get_contextvars().get("request_id", "")
        observed = self.observed.begin(
            kind, time.monotonic(), request_id=request_id, has_pool=has_pool
        )
        try:
            yield observed
        finally:
            observed.end(time.monotonic())

    @asynccontextmanager
    async def _running(
        self, session: Session | FannedSession | VerifiedSession, work: Coroutine[Any, Any, None]
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
