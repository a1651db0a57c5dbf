"""A histogram with fixed bounds, cheap enough for every pass."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKENS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0)


class Histogram:
    """Counts of values by upper bound; one open class above the last."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.sum = 0.0
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)

    def __repr__(self) -> str:
        return f"<Histogram n={self.num_values} mean={self.mean}>"

    def observe(self, value: float, times: int = 1) -> None:
        """`value` was seen `times` times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    @property
    def num_values(self) -> int:
        return sum(self._counts)

    @property
    def mean(self) -> float | None:
        return self.sum / self.num_values if self.num_values else None

    def cumulative(self) -> Iterator[tuple[str, float]]:
        """(upper bound, how many values are not above it), as Prometheus wants them."""
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, float(total)
