"""One target and its draft: what is known of them now, and whether answers are sped up.

A route starts without knowledge, and every answer passes through untouched. In the background
it learns: is the target there, do the vocabularies match, which way can it be sped up. That way
lasts until the target goes away or comes back as another process; then it learns anew.
"""

import asyncio
import random
import time
from pathlib import Path

import structlog

from specproxy.core.tasks import spawn, stop
from specproxy.draft.protocol import Drafter
from specproxy.errors import TargetError
from specproxy.load import Load
from specproxy.route.answers import Answers
from specproxy.route.choice import Chooser
from specproxy.route.finder import Finder
from specproxy.route.gate import Gate
from specproxy.route.learned import Learned
from specproxy.route.mode import Mode
from specproxy.settings import FanoutSettings, SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.ways.coordinator import CoordinatorWay
from specproxy.ways.fanout import FanoutWay
from specproxy.ways.seeding import SeedingWay

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""How often the target is looked at, to see it come, go and restart."""
THERE_S = 60.0
"""A target of which nothing has come for so long is there no more: its looks hang, too."""
SAVE_S = 60.0
"""How often what was learned is written down while answers run."""


class Route:
    """A named target. Run `serve` for as long as it is used.

    Args:
        drafter: perhaps of other routes, too; None leaves every answer to the target alone.
        aliases: more names that clients may call it by.
        max_requests: generation requests at once; None: any number.
        state_folder: where what is learned is kept; None keeps nothing.
        finder: what examines the target; None: the one that asks it.

    Attributes:
        poll_s: how often the target is looked at.
        there_s: how long nothing need come of it.
        mode, reason: what it does with answers now, and why.
        ready: set while nothing is left to learn, lengths warmed where that pays.
        facts: what the target said of itself; None while it is away.
        model: what the target calls its model, or called it when it was last there.
        learned: of all answers so far; `counts` and `observed` are of it.
        answers: what serves them.
        load: all answers, sped up or not, and whether drafts pay with so many.
        gate: lets requests in.
    """

    def __init__(
        self,
        name: str,
        client: TargetClient,
        drafter: Drafter | None,
        seeding: SeedingSettings,
        *,
        fanout: FanoutSettings | None = None,
        aliases: tuple[str, ...] = (),
        max_requests: int | None = None,
        rng: random.Random | None = None,
        state_folder: Path | None = None,
        finder: Finder | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.drafter = drafter
        self.aliases = aliases
        self.learned = Learned(name, state_folder)
        self.counts = self.learned.counts
        self.observed = self.learned.observed
        self.facts: TargetFacts | None = None
        self.model: str | None = None
        self.mode = Mode.STARTING
        self.reason = "the target has not been looked at yet"
        self.ready = asyncio.Event()
        self.poll_s = POLL_S
        self.there_s = THERE_S
        self.answers = Answers(drafter, self.learned)
        self.load = Load(time.monotonic)
        self.gate = Gate(name, max_requests)
        self._chooser = Chooser(
            client,
            drafter,
            seeding,
            fanout or FanoutSettings(),
            self.learned,
            rng or random.Random(),
            finder or Finder(),
        )

    def __repr__(self) -> str:
        return f"<Route {self.name} {self.mode.value} running={self.num_running}>"

    @property
    def is_there(self) -> bool:
        """Whether the target can be expected to answer."""
        silent_s = time.monotonic() - self.client.heard_s
        return self.facts is not None and silent_s < self.there_s

    @property
    def num_running(self) -> int:
        """Answers that are being sped up."""
        return self.answers.num_running

    @property
    def num_waiting(self) -> int:
        """Answers that wait for a slot."""
        return self.answers.num_waiting

    @property
    def is_at_rest(self) -> bool:
        """Nothing of any answer is left."""
        return self.answers.is_at_rest

    async def serve(self) -> None:
        """Keep the mode true to the target until cancelled."""
        try:
            await self._serve()
        finally:
            self.learned.state.save()

    async def _serve(self) -> None:
        while True:
            try:
                facts = self.facts = await read_facts(self.client)
                self.model = facts.model
                choice = await self._chooser.choose(facts)
                self.answers.way = choice.way
                self.load.crossover.drafts_itself = choice.drafts_itself
                self._settle(choice.mode, choice.reason)
                await self._watch(facts)
            except TargetError as error:
                self._settle(Mode.STARTING, str(error))
            except Exception as error:
                log.exception("the target could not be looked at", route=self.name)
                self._settle(Mode.STARTING, f"looking at the target failed: {error!r}")
            self.facts = None
            await asyncio.sleep(self.poll_s)

    async def _watch(self, facts: TargetFacts) -> None:
        """Go the way while the target stays the same process; returns or raises when it does
        not."""
        task, way = None, self.answers.way
        if isinstance(way, SeedingWay | FanoutWay):
            work = way.run(self.ready.set, self.load.idle.wait)
            task = spawn(work, name=f"{self.mode.value} {self.name}")
        elif isinstance(way, CoordinatorWay):
            work = way.run(self._opened, self._closed, rest_s=self.poll_s)
            task = spawn(work, name=f"coordinator {self.name}")
        saved_s = time.monotonic()
        try:
            while True:
                await asyncio.sleep(self.poll_s)
                if time.monotonic() - saved_s >= SAVE_S and not self.learned.state.is_saved:
                    saved_s = time.monotonic()
                    await self.learned.state.save_aside()
                if await read_facts(self.client) != facts:
                    return self._settle(Mode.STARTING, "the target was restarted")
        finally:
            self.answers.way = None
            if isinstance(way, SeedingWay):
                way.end()
            if task is not None:
                await stop(task)

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
