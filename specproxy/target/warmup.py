"""Warm lengths: have the target run every pass size once before an answer needs it.

The RPC client of llama.cpp asks each worker for the buffer sizes of some operators whenever it
meets a new number of tokens, and remembers the answers for the life of its process. On a slow
link that is about four round trips per worker, once per length; on a fast one it is nothing.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

import structlog

from specproxy.errors import TargetError
from specproxy.target.client import TargetClient
from specproxy.target.seeding import plant

log = structlog.get_logger(__name__)

When = Literal["auto", "always", "never"]
WORTH = 1.5
"""A new length must cost this many times a known one for warming to pay."""


class Warmer:
    """Warms one target through its seed slot.

    Args:
        tell_used: called before and after the slot reads something: it holds nothing else then.
    """

    def __init__(
        self,
        client: TargetClient,
        *,
        seed_slot: int,
        num_vocab: int,
        rng: random.Random,
        tell_used: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._seed_slot = seed_slot
        self._num_vocab = num_vocab
        self._rng = rng
        self._tell_used = tell_used
        self.num_warmed = 0

    async def warm_up(
        self, when: When, longest: int, idle: Callable[[], Awaitable[object]]
    ) -> bool:
        """Run every length below `longest` once, where `when` says so; a target that fails ends it.

        Args:
            when: `auto` measures whether it pays.
            idle: returns when no answer is running.

        Returns:
            Whether all of them have been run.
        """
        try:
            if when == "auto":
                await idle()
            wanted = when == "always" or (when == "auto" and await self.pays(longest))
            if wanted:
                await self.warm(range(2, longest), idle)
            log.info("warmed", target=self._client.name, num_lengths=self.num_warmed)
            return wanted
        except TargetError as error:
            log.warning("warming stopped", target=self._client.name, reason=str(error))
            return False

    async def pays(self, num_tokens: int) -> bool:
        """Whether a new length costs this target much more than one it knows.

        Args:
            num_tokens: a length that it has not run yet.
        """
        first_s = await self.run(num_tokens)
        return first_s > WORTH * min([await self.run(num_tokens) for _ in range(3)])

    async def warm(self, lengths: Iterable[int], idle: Callable[[], Awaitable[object]]) -> None:
        """Run every length once, in the given order, each when `idle` returns."""
        for num_tokens in lengths:
            await idle()
            await self.run(num_tokens)

    async def run(self, num_tokens: int) -> float:
        """One pass of `num_tokens` random tokens; its time in seconds."""
        prompt = [
            self._rng.randrange(self._num_vocab // 8, self._num_vocab) for _ in range(num_tokens)
        ]
        started = time.monotonic()
        self._tell_used()
        try:
            await plant(self._client, prompt, seed_slot=self._seed_slot)
        finally:
            self._tell_used()
        self.num_warmed += 1
        return time.monotonic() - started
