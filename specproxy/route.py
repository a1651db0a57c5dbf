"""One target and its draft: what is known of them now, and whether answers are sped up.

A route starts without knowledge, and every answer passes through untouched. In the background
it learns: is the target there, do the vocabularies match, which way can it be sped up. That way
lasts until the target goes away or comes back as another process; then it learns anew.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import structlog

from specproxy.admission import Admission
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.horizon import DraftPace, PassPace
from specproxy.core.stats import DraftCounts
from specproxy.core.tasks import spawn, stop
from specproxy.draft.family import check_family
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftError, TargetError
from specproxy.session import Session
from specproxy.settings import SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.target.tokens import TargetTokens
from specproxy.verified import VerifiedSession
from specproxy.ways.coordinator import CoordinatorWay
from specproxy.ways.seeding import NO_POOL, NO_SEED_SLOT, SeedingWay, find_n_match

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""How often the target is looked at, to see it come, go and restart."""


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
        counts, acceptance, draft_pace, pass_pace: of all answers so far.
        num_running: answers that are being sped up.
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
        self.num_running = 0
        self._settings = settings
        self._rng = rng or random.Random()
        self._way: SeedingWay | CoordinatorWay | None = None
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
        if self._settings.mode == "off" and not facts.takes_drafts:
            return self._settle(Mode.PASSTHROUGH, "seeding.mode is off")
        if facts.num_slots < 2 and not facts.takes_drafts:
            return self._settle(Mode.PASSTHROUGH, NO_SEED_SLOT)
        try:
            await self._check_draft(self.drafter, facts)
        except DraftError as error:
            return self._settle(Mode.PASSTHROUGH, str(error))
        if facts.takes_drafts:
            self._way = CoordinatorWay(
                self.client,
                self.drafter,
                acceptance=self.acceptance,
                draft_pace=self.draft_pace,
                pass_pace=self.pass_pace,
            )
            return self._settle(Mode.STARTING, "the draft channel is not open yet")
        n_match = await find_n_match(self.client, facts, self._settings, self._rng)
        if n_match is None:
            return self._settle(Mode.PASSTHROUGH, NO_POOL)
        self._way = SeedingWay(
            self.client,
            self.drafter,
            self._settings,
            facts,
            n_match=n_match,
            acceptance=self.acceptance,
            rng=self._rng,
        )
        return self._settle(Mode.SEEDING, f"the target takes seeds, n_match {n_match}")

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
        if isinstance(self._way, SeedingWay):
            work = self._way.run(self.ready.set, self._idle.wait)
            task = spawn(work, name=f"seeding {self.name}")
        elif isinstance(self._way, CoordinatorWay):
            work = self._way.run(self._opened, self._closed, rest_s=self.poll_s)
            task = spawn(work, name=f"coordinator {self.name}")
        try:
            while True:
                await asyncio.sleep(self.poll_s)
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
    def verifies(self) -> bool:
        """Whether an answer that starts now can have its drafts verified by a coordinator."""
        way = self._way
        return self._has_draft and isinstance(way, CoordinatorWay) and way.is_open

    @property
    def _has_draft(self) -> bool:
        return self.drafter is not None and self.drafter.alive

    @asynccontextmanager
    async def verified(self) -> AsyncIterator[tuple[VerifiedSession, str] | None]:
        """Speculation for one answer of a coordinator, and the header its request needs.

        None: it goes without.
        """
        if not self.verifies or not isinstance(self._way, CoordinatorWay):
            yield None
            return
        with self._way.answer() as begun:
            if begun is None:
                yield None
                return
            session, drafts = begun
            async with self._running(session, session.speculate(drafts)):
                yield session, drafts.header

    @asynccontextmanager
    async def lease(self, transcript: str) -> AsyncIterator[int | None]:
        """A slot of the target for one answer, waiting for one if need be; None: any slot."""
        if not isinstance(self._way, SeedingWay):
            yield None
            return
        async with self._way.lease(transcript) as slot:
            yield slot

    @asynccontextmanager
    async def session(self, admission: Admission) -> AsyncIterator[Session | None]:
        """Speculation for one answer while the context lasts; None: it goes without."""
        way = self._way
        if not self.speculates or not isinstance(way, SeedingWay):
            yield None
            return
        session = way.session()
        async with self._running(session, session.speculate(way.prompt(admission))):
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
