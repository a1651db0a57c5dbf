"""One target and its draft: what is known of them now, and whether answers are sped up.

A route starts without knowledge, and every answer passes through untouched. In the background
it learns: is the target there, do the vocabularies match, does the pool take seeds. Then it
seeds, until the target goes away or comes back as another process; then it learns anew.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum

import structlog

from specproxy.admission import Admission, single_prompt
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.slots import SlotLeases
from specproxy.core.stats import DraftCounts
from specproxy.core.tasks import spawn, stop
from specproxy.core.window import Window
from specproxy.draft.family import check_family
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftError, TargetError
from specproxy.session import Session
from specproxy.settings import SeedingSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.target.probe import probe_pool
from specproxy.target.seeding import Seeder
from specproxy.target.tokens import TargetTokens
from specproxy.target.warmup import Warmer

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""How often the target is looked at, to see it come, go and restart."""


class Mode(Enum):
    """What a route does with generation requests."""

    STARTING = "starting"
    PASSTHROUGH = "passthrough"
    SEEDING = "seeding"


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
        self._rng = rng or random.Random()
        self._tokens = TargetTokens(client)
        self._seeder: Seeder | None = None
        self._leases: SlotLeases | None = None
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
        if facts.num_slots < 2:
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
        try:
            while True:
                await asyncio.sleep(self.poll_s)
                if await read_facts(self.client) != facts:
                    return self._settle(Mode.STARTING, "the target was restarted")
        finally:
            for task in tasks:
                await stop(task)
            self._seeder = self._leases = None

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
        if mode is Mode.PASSTHROUGH:
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
        self.num_running += 1
        self._idle.clear()
        task = spawn(session.speculate(self._prompt(admission)), name="speculate")
        try:
            yield session
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
        if admission.kind == "chat":
            return await self._tokens.chat_prompt(admission.body)
        prompt = single_prompt(admission.body.get("prompt"))
        if isinstance(prompt, list):
            return prompt
        return await self._tokens.tokenize(prompt or "", add_special=True)
