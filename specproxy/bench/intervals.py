"""How far a speed can be trusted: intervals by bootstrap. Pure, and the same at every run.

What is drawn anew is the prompts: an interval says how much the figure depends on which prompts
of this sort happened to be asked. Arms that answered the same prompts get the same draws, so that
a ratio compares what both made of them; arms with prompts of their own are drawn apart, and the
interval is wider for it. What no interval here knows of is another machine, another day.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specproxy.bench.stats import Portion

LEVEL = 0.95
NUM_DRAWS = 4000
SEED = 20
FEWEST = 4
"""From fewer prompts no interval is given; from a handful it is rather too narrow."""

Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a figure lies, `LEVEL` of the time."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def rate_interval(parts: Sequence[Portion]) -> Interval | None:
    """Of tokens per second; None where too little was measured."""
    return _between(_rates(parts))


def ratio_interval(
    parts: Sequence[Portion], base: Sequence[Portion], *, paired: bool = True
) -> Interval | None:
    """Of how many times as fast `parts` is as `base`.

    Args:
        paired: both answered the same prompts, in the same order.
    """
    above, below = _rates(parts), _rates(base, SEED if paired else SEED + 1)
    if not above.size or not below.size:
        return None
    return _between(above / below)


def median_interval(values: Sequence[float]) -> Interval | None:
    """Of the median of `values`, one for each prompt; None where there are too few."""
    if len(values) < FEWEST:
        return None
    draws = np.random.default_rng(SEED).integers(len(values), size=(NUM_DRAWS, len(values)))
    return _between(np.median(np.array(values)[draws], axis=1))


def _rates(parts: Sequence[Portion], seed: int = SEED) -> Rates:
    """Tokens per second of each draw; not finite where it holds nothing that took time."""
    if len(parts) < FEWEST:
        return np.empty(0)
    draws = np.random.default_rng(seed).integers(len(parts), size=(NUM_DRAWS, len(parts)))
    tokens = np.array([one.num_tokens for one in parts], dtype=np.float64)
    seconds = np.array([one.seconds for one in parts])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(tokens[draws].sum(axis=1) / seconds[draws].sum(axis=1))


def _between(rates: Rates) -> Interval | None:
    known = rates[np.isfinite(rates)]
    if not known.size:
        return None
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
