"""Seeding: drafted runs into the n-gram pool of an unmodified llama-server.

A seed is a one-token completion in a slot of its own. The server evaluates it beside the
running answers and learns from it when its pass ends; one pass later the pool proposes the run
and the target verifies it. Source: llama.cpp `common/speculative.cpp`, `ngram-mod`.

Invariant: seeds never touch an answer. A seed that fails, is late or is wrong costs time only.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from specproxy.core.passes import PassClock
from specproxy.core.seeds import Seed, SeedSlot
from specproxy.core.tasks import spawn
from specproxy.core.tree import DraftTree, Run, SeedState
from specproxy.core.worth import Worth
from specproxy.errors import TargetError
from specproxy.target.client import TargetClient

log = structlog.get_logger(__name__)

RETRY_S = 0.2
"""Rest after a failed seed, so that a dying target is not hammered."""
FIRST_TOKENS = 8
"""Drafted before the first seed of an answer leaves, unless the answer has begun by then."""
MOST_SHARES = 3
"""Times the tokens of one answer's seed that a seed of several answers may have."""
PAUSE_S = 0.1
"""Without a new token for so long, what there is leaves as that first seed."""


async def plant(
    client: TargetClient, prompt: Sequence[int], *, seed_slot: int, cache_prompt: bool = False
) -> None:
    """Have the target read `prompt` in `seed_slot`.

    Raises:
        TargetError: it did not.
    """
    body = {
        "prompt": list(prompt),
        "n_predict": 1,
        "temperature": 0,
        "id_slot": seed_slot,
        "cache_prompt": cache_prompt,
    }
    await client.json("POST", "/completion", body)


@dataclass(slots=True)
class _Flight:
    """A seed on its way.

    Attributes:
        sent_in: number of passes that had ended when it left: the target takes it up with the
            next pass, and reads it during that.
        rests: it has failed, and is to be sent again in a while.
    """

    seed: Seed
    sent_in: int
    rests: bool = False
    task: asyncio.Task[None] | None = None


class Seeder:
    """Carries what the sessions' trees have drafted to one target.

    One seed per pass: the seed slot reads one in a pass, so what is sent beside it waits, grows
    stale, and delays what a miss makes urgent. It leaves late in a pass. Then the trees are
    asked: what a miss made void meanwhile is never sent, and what several sessions have ready
    rides together.

    Args:
        n_match: key length of the target's pool.
        seed_slot: the slot that seeds use, and no answer.
        num_context: KV cells of the target, which answers and seeds share. Near their end the
            server drops speculative batches with an error, so seeding stops in time.
        max_tokens: new tokens per seed at most, for each of up to `MOST_SHARES` answers.
        worth: learns what passes take and bring.
        tell_seeded: called with a seed's end, by the loop's clock, its time in seconds, and
            whether it failed.

    Attributes:
        clock: of the target's passes.
    """

    def __init__(
        self,
        client: TargetClient,
        *,
        n_match: int,
        seed_slot: int,
        max_tokens: int,
        num_context: int,
        worth: Worth | None = None,
        tell_seeded: Callable[[float, float, bool], None] = lambda now_s, duration_s, failed: None,
    ) -> None:
        self.n_match = n_match
        self.clock = PassClock()
        self._worth = worth or Worth(n_match)
        self._client = client
        self._seed_slot = seed_slot
        self._max_tokens = max_tokens
        self._num_context = num_context
        self._slot = SeedSlot(max_tokens=min(256, num_context // 32))
        self._trees: list[DraftTree] = []
        self._wanted = asyncio.Event()
        self._flights: list[_Flight] = []
        self._num_rows: int | None = None
        self._tell_seeded = tell_seeded
        self.num_failed = 0

    def __repr__(self) -> str:
        return f"<Seeder slot={self._seed_slot} sessions={len(self._trees)}>"

    @property
    def is_at_rest(self) -> bool:
        """Nobody is served, and no seed is on its way."""
        return not self._trees and all(flight.rests for flight in self._flights)

    @contextmanager
    def serving(self, tree: DraftTree) -> Iterator[None]:
        """Seed from `tree` while the context lasts."""
        if not self._trees:
            self.clock.quiet()  # what was heard before were answers that are not seeded
        self._trees.append(tree)
        try:
            yield
        finally:
            self._trees.remove(tree)
            if not self._trees:
                self.clock.quiet()

    def wake(self) -> None:
        """A tree has something new."""
        self._wanted.set()

    def passed(self, now_s: float) -> int:
        """An answer has got something at `now_s`, by the loop's clock; returns how many passes
        have ended so far."""
        if self.clock.heard(now_s):
            if not all(tree.has_begun for tree in self._trees):
                self._worth.skipped()  # a prompt was read: neither a pace nor the price of rows
            elif self._trees and self.clock.last_s is not None:
                self._worth.passed(self._num_rows, self.clock.last_s, len(self._trees))
            self._num_rows = None
            self._wanted.set()
        return self.clock.num_passes

    def forget(self) -> None:
        """Something else is or was read in the seed slot: what it holds is not known."""
        self._slot.forget()

    async def run(self) -> None:
        """Seed until cancelled."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._until_due()
                await self._until_block()
                if self._is_crowded():
                    continue  # the pass's end wakes us
                seed = self._slot.compose(self._runs(), self._budget)
                if seed is not None:
                    self._launch(seed)
        finally:
            for flight in self._flights:
                if flight.task is not None:
                    flight.task.cancel()

    async def _until_due(self) -> None:
        """Until the running pass nears its end, whichever that is by then."""
        clock, clock_s = self.clock, asyncio.get_running_loop().time
        clock.travel_s = self._client.travel_s
        num_passes = clock.num_passes
        while (wait_s := clock.wait_s(now_s := clock_s())) > 0:
            if clock.num_passes != num_passes:
                num_passes = clock.num_passes
                if self._num_unsent():
                    clock.missed()
            unsettled_s = clock.unsettled_s(now_s)
            if self._num_rows is None and not unsettled_s:
                self._num_rows = self._rows_now()
                clock.expect(self._worth.cost.pass_s(self._num_rows))
            else:
                await asyncio.sleep(min(wait_s, unsettled_s or wait_s))
        if self._num_rows is None and not clock.is_quiet:
            self._num_rows = self._rows_now()  # far away seeds leave before all can be here

    async def _until_block(self) -> None:
        """Before an answer begins: until a block is drafted, or the draft pauses."""
        while self.clock.is_quiet and 0 < self._num_unsent() < FIRST_TOKENS:
            self._wanted.clear()
            try:
                async with asyncio.timeout(PAUSE_S):
                    await self._wanted.wait()
            except TimeoutError:
                return

    def _rows_now(self) -> int:
        """Rows of the running pass: what is verified, and the seed that is read."""
        num_verified = sum(1 + min(tree.num_pooled, self._worth.n_max) for tree in self._trees)
        begun = [one.seed for one in self._flights if one.sent_in < self.clock.num_passes]
        return num_verified + sum(seed.num_new for seed in begun[:1])

    def _is_crowded(self) -> bool:
        """A seed that still matters waits already to be read in the next pass."""
        now = self.clock.num_passes
        waiting = [one for one in self._flights if one.sent_in == now]
        return len(self._flights) > 1 or any(not one.seed.void for one in waiting)

    def _runs(self) -> list[Run]:
        """Unsent runs of all sessions: every main line first, then every branch; of the sessions
        first the one that has least on its way, so that none waits for another's end."""
        num_held = sum(len(tree.tokens) + tree.num_ahead for tree in self._trees)
        if num_held + len(self._slot) + 4 * self._budget > self._num_context:
            return []
        trees = sorted(self._trees, key=lambda tree: tree.num_ahead - tree.num_unsent)
        runs = [run for tree in trees for run in tree.unseeded(self.n_match)]
        return sorted(runs, key=lambda run: run.branches)

    @property
    def _budget(self) -> int:
        return self._max_tokens * max(1, min(len(self._trees), MOST_SHARES))

    def _num_unsent(self) -> int:
        return sum(len(run.nodes) for run in self._runs())

    def _launch(self, seed: Seed) -> None:
        self.clock.met()
        self._slot.commit(seed)
        seed.mark(SeedState.SENT)
        flight = _Flight(seed, self.clock.num_passes)
        self._flights.append(flight)
        flight.task = spawn(self._send(flight), name="seed")

    async def _send(self, flight: _Flight) -> None:
        seed, began_s = flight.seed, asyncio.get_running_loop().time()
        try:
            await plant(self._client, seed.prompt, seed_slot=self._seed_slot, cache_prompt=True)
        except TargetError as error:
            self._slot.forget()
            self.num_failed += 1
            self._landed(flight, began_s, failed=True)
            log.debug("seed failed", reason=str(error))
            flight.rests = True
            await asyncio.sleep(RETRY_S)
            seed.mark(SeedState.PLANNED)
        else:
            self._landed(flight, began_s)
            seed.mark(SeedState.POOLED)
        finally:
            self._flights.remove(flight)
            self._wanted.set()

    def _landed(self, flight: _Flight, began_s: float, *, failed: bool = False) -> None:
        now_s = asyncio.get_running_loop().time()
        if flight.sent_in < self.clock.num_passes and not self.clock.is_quiet:
            self.passed(now_s)  # the answers' tokens of that pass will be here in a moment
        self._tell_seeded(now_s, now_s - began_s, failed)
