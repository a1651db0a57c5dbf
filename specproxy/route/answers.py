"""What serves the answers of a route: the way it goes now, and who is on it.

Invariant: what an answer takes (a slot, a session, a task) is given back when its context ends.
"""

import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import structlog

from specproxy.admission import Admission
from specproxy.core.observed import ObservedAnswer
from specproxy.core.tasks import spawn, stop
from specproxy.draft.protocol import Drafter
from specproxy.fanned import FannedSession
from specproxy.route.choice import Way
from specproxy.route.learned import Learned
from specproxy.session import Session
from specproxy.verified import VerifiedSession
from specproxy.ways.coordinator import CoordinatorWay
from specproxy.ways.fanout import FanoutWay
from specproxy.ways.plain import PlainRequest
from specproxy.ways.seeding import SeedingWay


class Answers:
    """
    Args:
        learned: hears how each answer went.

    Attributes:
        way: how answers are sped up now; None: the target alone gives them.
        num_running: answers that are being sped up.
    """

    def __init__(self, drafter: Drafter | None, learned: Learned) -> None:
        self.way: Way | None = None
        self.num_running = 0
        self._drafter = drafter
        self._learned = learned

    def __repr__(self) -> str:
        return f"<Answers running={self.num_running} {self.way!r}>"

    @property
    def num_waiting(self) -> int:
        """Answers that wait for a slot."""
        return self.way.num_waiting if isinstance(self.way, SeedingWay) else 0

    @property
    def is_at_rest(self) -> bool:
        """Nothing of any answer is left."""
        at_rest = not isinstance(self.way, SeedingWay) or self.way.is_at_rest
        return at_rest and not self.num_running and not self.num_waiting

    @property
    def speculates(self) -> bool:
        """Whether an answer that starts now can be sped up by seeds."""
        return self._has_draft and isinstance(self.way, SeedingWay)

    @property
    def fans(self) -> FanoutWay | None:
        """The way, if an answer that starts now can be sped up by fan-out."""
        way = self.way
        return way if self._has_draft and isinstance(way, FanoutWay) else None

    @property
    def verifies(self) -> bool:
        """Whether an answer that starts now can have its drafts verified by a coordinator."""
        way = self.way
        return self._has_draft and isinstance(way, CoordinatorWay) and way.is_open

    @property
    def _has_draft(self) -> bool:
        return self._drafter is not None and self._drafter.alive

    @asynccontextmanager
    async def verified(self, kind: str) -> AsyncIterator[tuple[VerifiedSession, str] | None]:
        """Speculation for one answer of a coordinator, and the header its request needs.

        None: it goes without.
        """
        if not self.verifies or not isinstance(self.way, CoordinatorWay):
            yield None
            return
        with self._observed(kind) as observed, self.way.answer(observed) as begun:
            if begun is None:
                yield None
                return
            session, drafts = begun
            async with self._speculating(session, session.speculate(drafts)):
                yield session, drafts.header

    @asynccontextmanager
    async def lease(self, transcript: str, *, named: bool = True) -> AsyncIterator[int | None]:
        """A slot of the target for one answer, waiting for one if need be; None: any slot.

        Args:
            named: the request will name it.
        """
        if isinstance(self.way, FanoutWay):
            with self.way.beside(1):
                yield None
            return
        if not isinstance(self.way, SeedingWay):
            yield None
            return
        began_s = time.monotonic()
        async with self.way.lease(transcript, named=named) as slot:
            now_s = time.monotonic()
            self._learned.observed.waited(now_s, now_s - began_s)
            yield slot

    @contextmanager
    def beside(self, num_prompts: int, num_choices: int, slot: int | None) -> Iterator[None]:
        """For an answer that the target alone finds slots for: they are taken meanwhile.

        Args:
            num_choices: of each prompt.
            slot: what the client has named, if it has.
        """
        if isinstance(self.way, SeedingWay):
            with self.way.beside(num_prompts, num_choices, slot):
                yield
        elif isinstance(self.way, FanoutWay):
            with self.way.beside(num_prompts * num_choices):
                yield
        else:
            yield

    @asynccontextmanager
    async def session(self, admission: Admission) -> AsyncIterator[Session | None]:
        """Speculation for one answer while the context lasts; None: it goes without."""
        way = self.way
        if not self.speculates or not isinstance(way, SeedingWay):
            yield None
            return
        with self._observed(admission.kind, has_pool=True) as observed:
            session = way.session(observed)
            work = session.speculate(lambda: way.prompt(admission))
            async with self._speculating(session, work):
                yield session

    @asynccontextmanager
    async def fanned(
        self, way: FanoutWay, request: PlainRequest, prompt: list[int]
    ) -> AsyncIterator[FannedSession | None]:
        """Speculation for one answer in rounds; None: it goes without."""
        with self._observed(request.kind) as observed:
            async with way.answer(request, prompt, observed) as session:
                if session is None:
                    yield None
                    return
                async with self._speculating(session, session.speculate()):
                    yield session

    @contextmanager
    def _observed(self, kind: str, *, has_pool: bool = False) -> Iterator[ObservedAnswer]:
        """Show one answer while the context lasts."""
        request_id = structlog.contextvars.get_contextvars().get("request_id", "")
        observed = self._learned.observed.begin(
            kind, time.monotonic(), request_id=request_id, has_pool=has_pool
        )
        try:
            yield observed
        finally:
            observed.end(time.monotonic())

    @asynccontextmanager
    async def _speculating(
        self, session: Session | FannedSession | VerifiedSession, work: Coroutine[Any, Any, None]
    ) -> AsyncIterator[None]:
        """Do the session's work while the context lasts; count the answer afterwards."""
        self.num_running += 1
        task = spawn(work, name="speculate")
        try:
            yield
        finally:
            try:
                await stop(task)
            finally:
                self._learned.counts.add(session.counts)
                self.num_running -= 1
