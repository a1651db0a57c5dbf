"""Seeding: drafted runs into the n-gram pool of an unmodified llama-server.

A seed is a one-token completion in a slot of its own. The server evaluates it beside the
running answers and learns from it when its pass ends; one pass later the pool proposes the run
and the target verifies it. Source: llama.cpp `common/speculative.cpp`, `ngram-mod`.

Invariant: seeds never touch an answer. A seed that fails, is late or is wrong costs time only.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from specproxy.core.passes import PassClock
from specproxy.core.seeds import Seed, SeedSlot
from specproxy.core.tasks import spawn
from specproxy.core.tree import DraftTree, Run, SeedState
from specproxy.errors import TargetError
from specproxy.target.client import TargetClient

log = structlog.get_logger(__name__)

RETRY_S = 0.2
"""Rest after a failed seed, so that a dying target is not hammered."""


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


class Seeder:
    """Carries what the sessions' trees have drafted to one target.

    Whenever a seed may leave, the trees are asked anew: what a miss made void meanwhile is
    never sent, and what several sessions have ready rides together.

    Args:
        n_match: key length of the target's pool.
        seed_slot: the slot that seeds use, and no answer.
        num_context: KV cells of the target, which answers and seeds share. Near their end the
            server drops speculative batches with an error, so seeding stops in time.
        max_tokens: new tokens per seed at most.
        max_in_flight: seeds on their way at once, the server runs them one after the other. One
            more may follow those that a miss has made void.
        tell_seeded: called with a seed's end, by `time.monotonic`, its time in seconds, and
            whether it failed.
    """

    def __init__(
        self,
        client: TargetClient,
        *,
        n_match: int,
        seed_slot: int,
        max_tokens: int,
        num_context: int,
        max_in_flight: int = 2,
        tell_seeded: Callable[[float, float, bool], None] = lambda now_s, duration_s, failed: None,
    ) -> None:
        self.n_match = n_match
        self._client = client
        self._seed_slot = seed_slot
        self._max_tokens = max_tokens
        self._num_context = num_context
        self._slot = SeedSlot(max_tokens=min(256, num_context // 32))
        self._trees: list[DraftTree] = []
        self._clock = PassClock()
        self._wanted = asyncio.Event()
        self._flights: dict[Seed, asyncio.Task[None]] = {}
        self._max_in_flight = max_in_flight
        self._tell_seeded = tell_seeded
        self.num_failed = 0

    def __repr__(self) -> str:
        return f"<Seeder slot={self._seed_slot} sessions={len(self._trees)}>"

    @property
    def is_at_rest(self) -> bool:
        """Nobody is served, and no seed is on its way."""
        return not self._trees and not self._flights

    @contextmanager
    def serving(self, tree: DraftTree) -> Iterator[None]:
        """Seed from `tree` while the context lasts."""
        self._trees.append(tree)
        try:
            yield
        finally:
            self._trees.remove(tree)
            if not self._trees:
                self._clock.quiet()

    def wake(self) -> None:
        """A tree has something new."""
        self._wanted.set()

    def passed(self, now_s: float) -> int:
        """An answer has got something at `now_s`, by `time.monotonic`; returns how many passes
        have ended so far."""
        self._clock.heard(now_s)
        return self._clock.num_passes

    async def run(self) -> None:
        """Seed until cancelled."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if self._is_crowded():
                    continue  # a landing wakes us, and so does what is drafted after a miss
                await asyncio.sleep(self._clock.wait_s(time.monotonic()))
                seed = self._slot.compose(self._runs(), self._max_tokens)
                if seed is not None:
                    self._launch(seed)
        finally:
            for flight in self._flights.values():
                flight.cancel()

    def _is_crowded(self) -> bool:
        """One seed that still matters is on its way, or one more than that in all."""
        num_live = sum(not seed.void for seed in self._flights)
        return num_live >= self._max_in_flight or len(self._flights) > self._max_in_flight

    def _runs(self) -> list[Run]:
        """Unsent runs of all sessions: every main line first, then every branch."""
        num_held = sum(len(tree.tokens) + tree.num_ahead for tree in self._trees)
        if num_held + len(self._slot) + 4 * self._max_tokens > self._num_context:
            return []
        waiting = [tree.unseeded(self.n_match) for tree in self._trees]
        runs = [run for runs in waiting for run in runs]
        return sorted(runs, key=lambda run: run.branches)

    def _launch(self, seed: Seed) -> None:
        self._slot.commit(seed)
        seed.mark(SeedState.SENT)
        self._flights[seed] = spawn(self._send(seed), name="seed")

    async def _send(self, seed: Seed) -> None:
        began_s = time.monotonic()
        try:
            await plant(self._client, seed.prompt, seed_slot=self._seed_slot, cache_prompt=True)
        except TargetError as error:
            self._slot.forget()
            self.num_failed += 1
            self._landed(began_s, failed=True)
            log.debug("seed failed", reason=str(error))
            await asyncio.sleep(RETRY_S)
            seed.mark(SeedState.PLANNED)
        else:
            self._landed(began_s)
            seed.mark(SeedState.POOLED)
        finally:
            del self._flights[seed]
            self._wanted.set()

    def _landed(self, began_s: float, *, failed: bool = False) -> None:
        now_s = time.monotonic()
        self._tell_seeded(now_s, now_s - began_s, failed)
