"""The choice of a way: what one life of a target allows, found by asking it.

The first of these that it takes: our drafts as they are (a coordinator), seeds for its n-gram pool,
prompts side by side in spare slots; else its answers pass through.
"""

import random
import time
from dataclasses import dataclass

from specproxy.draft.limited import LimitedDrafter
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftError
from specproxy.route.finder import Finder
from specproxy.route.learned import Learned
from specproxy.route.mode import Mode
from specproxy.settings import FanoutSettings, SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.ways.coordinator import CoordinatorWay
from specproxy.ways.fanout import FanoutWay
from specproxy.ways.seeding import NO_POOL, NO_SEED_SLOT, PoolFacts, SeedingWay

Way = SeedingWay | FanoutWay | CoordinatorWay


@dataclass(frozen=True, slots=True)
class Choice:
    """What a route does from now on, and why.

    Attributes:
        way: to be run; None leaves every answer to the target alone.
        drafts_itself: the target drafts by itself where it is left alone.
    """

    mode: Mode
    reason: str
    way: Way | None = None
    drafts_itself: bool = False


class Chooser:
    """Chooses for one route, anew for each life of its target."""

    def __init__(
        self,
        client: TargetClient,
        drafter: Drafter | None,
        seeding: SeedingSettings,
        fanout: FanoutSettings,
        learned: Learned,
        rng: random.Random,
        finder: Finder,
    ) -> None:
        self._client = client
        self._drafter = drafter
        self._seeding = seeding
        self._fanout = fanout
        self._learned = learned
        self._rng = rng
        self._finder = finder

    async def choose(self, facts: TargetFacts) -> Choice:
        """Find out what this life of the target allows.

        Raises:
            TargetError: it did not answer.
        """
        if self._drafter is None:
            return Choice(Mode.PASSTHROUGH, "no draft model is loaded")
        is_off = self._seeding.mode == "off" and self._fanout.mode == "off"
        if is_off and not facts.takes_drafts:
            return Choice(Mode.PASSTHROUGH, "seeding.mode is off, and fanout.mode")
        if facts.num_slots < 2 and not facts.takes_drafts:
            return Choice(Mode.PASSTHROUGH, NO_SEED_SLOT)
        try:
            drafter = await self._checked(self._drafter, facts)
        except DraftError as error:
            return Choice(Mode.PASSTHROUGH, str(error))
        self._learned.state.recall(drafter.vocabulary.name, facts.model, time.monotonic())
        if facts.takes_drafts:
            return self._coordinator(drafter)
        pool, no_pool = PoolFacts(None), "seeding.mode is off"
        if self._seeding.mode != "off":
            pool = await self._finder.pool(self._client, facts, self._seeding, self._rng)
            no_pool = NO_POOL
        if pool.n_match is None:
            return await self._fan_out(drafter, facts, no_pool)
        return self._seed(drafter, facts, pool)

    async def _checked(self, drafter: Drafter, facts: TargetFacts) -> LimitedDrafter:
        """The drafter, for the ids that both have.

        Raises:
            DraftError: it is no draft for this target.
        """
        num_shared = await self._finder.num_shared(self._client, facts, drafter.vocabulary)
        return LimitedDrafter(drafter, num_shared)

    def _coordinator(self, drafter: Drafter) -> Choice:
        way = CoordinatorWay(
            self._client,
            drafter,
            acceptance=self._learned.acceptance,
            draft_pace=self._learned.draft_pace,
            pass_pace=self._learned.pass_pace,
        )
        return Choice(Mode.STARTING, "the draft channel is not open yet", way)

    def _seed(self, drafter: Drafter, facts: TargetFacts, pool: PoolFacts) -> Choice:
        way = SeedingWay(
            self._client,
            drafter,
            self._seeding,
            facts,
            pool=pool,
            acceptance=self._learned.acceptance,
            observed=self._learned.observed,
            rng=self._rng,
        )
        beside = ", and drafts by itself where there is none" if pool.drafts_itself else ""
        reason = f"the target takes seeds, n_match {pool.n_match}{beside}"
        return Choice(Mode.SEEDING, reason, way, drafts_itself=pool.drafts_itself)

    async def _fan_out(self, drafter: Drafter, facts: TargetFacts, no_pool: str) -> Choice:
        """For a target that takes no seeds, if it allows it."""
        if self._fanout.mode == "off":
            return Choice(Mode.PASSTHROUGH, no_pool)
        way = await FanoutWay.found(
            self._client,
            drafter,
            self._fanout,
            facts,
            acceptance=self._learned.acceptance,
            draft_pace=self._learned.draft_pace,
            rng=self._rng,
        )
        if isinstance(way, str):
            return Choice(Mode.PASSTHROUGH, f"{no_pool}; {way}")
        reason = f"{facts.num_slots} slots take prompts side by side"
        if way.chat_specials is None:
            reason += "; chats pass through, for the target may read more in them than their text"
        return Choice(Mode.FANOUT, reason, way)
