"""How many answers a route's target gives at a time, how fast, and whether drafts pay at that load.

Invariant: an answer is counted while it runs, sped up or not; its speed is learned from once.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from specproxy.core.crossover import MIN_TOKENS, Crossover


class Measured:
    """One running answer.

    Attributes:
        speculates: whether it should be sped up.
    """

    def __init__(self, *, speculates: bool) -> None:
        self.speculates = speculates
        self.tokens_per_s: float | None = None
        self.speculated = False

    def ended(self, num_tokens: int, duration_s: float, *, speculated: bool) -> None:
        """It has `num_tokens`, and took so long after the first of them."""
        if num_tokens >= MIN_TOKENS and duration_s > 0:
            self.tokens_per_s = (num_tokens - 1) / duration_s
            self.speculated = speculated

    def timed(self, timings: Mapping[str, Any], *, speculated: bool) -> None:
        """The same, as the target's own `timings` tell it."""
        num_tokens, duration_ms = timings.get("predicted_n"), timings.get("predicted_ms")
        if isinstance(num_tokens, int) and isinstance(duration_ms, int | float):
            self.ended(num_tokens, duration_ms / 1e3, speculated=speculated)


class Load:
    """All answers of a route.

    Args:
        clock: tells the time, in seconds.

    Attributes:
        crossover: what is known of the two ways at each load.
        num_answers: at this moment.
        idle: set while there are none.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.crossover = Crossover()
        self.num_answers = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Load answers={self.num_answers} {self.crossover!r}>"

    @contextmanager
    def answer(self) -> Iterator[Measured]:
        """One more while the context lasts."""
        self.num_answers += 1
        self.idle.clear()
        at_start = self.num_answers
        speculates = self.crossover.speculates(at_start, self._clock())
        measured = Measured(speculates=speculates)
        try:
            yield measured
        finally:
            at_a_time = (at_start + self.num_answers) // 2
            self.num_answers -= 1
            if not self.num_answers:
                self.idle.set()
            if measured.tokens_per_s is not None:
                self.crossover.finished(
                    at_a_time,
                    measured.tokens_per_s,
                    self._clock(),
                    speculated=measured.speculated,
                )
