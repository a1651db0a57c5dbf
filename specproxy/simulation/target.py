"""A target whose answers are given and whose passes take what a model of them says.

It is to the seeder what the client of a llama-server is. Its n-gram pool is the scripted target's.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specproxy.core.prefix import common_prefix
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing.ngram_pool import NgramPool

ANSWER_SLOT, SEED_SLOT = 0, 1
NO_TARGET = "http://127.0.0.1:1"
"""The address of what has none."""
GAP_S = 0.001
"""Between passes."""


@dataclass(frozen=True, slots=True)
class PassModel:
    """Seconds of a pass: all of it with one row, what each further row adds, and its deviation.

    Attributes:
        jitter: standard deviation, as a share of the pass.
    """

    plain_s: float
    row_s: float = 0.0045
    jitter: float = 0.03

    def duration_s(self, num_rows: int, rng: random.Random) -> float:
        mean_s = self.plain_s + self.row_s * (num_rows - 1)
        return max(0.2 * self.plain_s, mean_s * (1.0 + self.jitter * rng.gauss(0.0, 1.0)))


@dataclass(frozen=True, slots=True)
class Pass:
    """One that has ended: what it verified, what it said, and its time in seconds."""

    num_proposed: int
    num_said: int
    num_rows: int
    duration_s: float


class SimulatedTarget(TargetClient):
    """One answer at a time, and seeds in a slot of their own."""

    def __init__(self, model: PassModel, pool: NgramPool, rng: random.Random) -> None:
        super().__init__(TargetSettings(url=NO_TARGET))
        self.passes: list[Pass] = []
        self._model = model
        self._pool = pool
        self._rng = rng
        self._seeds: deque[tuple[list[int], asyncio.Future[None]]] = deque()
        self._held: list[int] = []

    @property
    def travel_s(self) -> float:
        return 0.0

    async def json(self, method: str, path: str, body: object = None) -> Any:
        """A seed: read in the next pass that begins."""
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert isinstance(body, dict), "a seed"
        self._seeds.append((list(body["prompt"]), read))
        await read
        return {}

    async def say(
        self, prompt: Sequence[int], answer: Sequence[int], hear: Callable[[int], None]
    ) -> None:
        """The whole `answer`, pass by pass, token by token into `hear`; the first pass reads the
        prompt."""
        tokens = list(prompt)
        await self._run_pass(len(tokens), [], 1)
        self._pool.begin(ANSWER_SLOT, tokens)
        rest, num_said = list(answer), 1
        while True:
            for token in rest[:num_said]:
                tokens.append(token)
                hear(token)
            rest = rest[num_said:]
            if not rest:
                return
            await asyncio.sleep(GAP_S)
            proposed = self._pool.draft(ANSWER_SLOT, tokens[:-1], tokens[-1])[: len(rest) - 1]
            num_accepted = common_prefix(proposed, rest)
            num_said = num_accepted + 1
            await self._run_pass(1 + len(proposed), proposed, num_said)
            self._pool.accept(ANSWER_SLOT, num_accepted)

    async def _run_pass(self, num_rows: int, proposed: Sequence[int], num_said: int) -> None:
        seed = self._seeds.popleft() if self._seeds else None
        if seed is not None:
            num_rows += len(seed[0]) - min(common_prefix(seed[0], self._held), len(seed[0]) - 1)
        duration_s = self._model.duration_s(num_rows, self._rng)
        await asyncio.sleep(duration_s)
        self.passes.append(Pass(len(proposed), num_said, num_rows, duration_s))
        if seed is not None:
            self._held = seed[0]
            self._pool.begin(SEED_SLOT, seed[0])
            seed[1].set_result(None)
