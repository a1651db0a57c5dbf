"""How fast the target would be alone, learned from its passes while it is not.

A pass without drafts, seeds or other answers is what the target does for every token when it is
alone. Where such passes are seen the figure is measured. Elsewhere it is an estimate: what a pass
of one row would take by those of more rows, or, while nobody tells rows, the shortest passes. No
pass is shorter than a plain one, so the target may be faster still.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from statistics import median, quantiles

from specproxy.core.cost import PassCost

NUM_KEPT = 96
MIN_MEASURED = 4
MIN_ESTIMATED = 12


class Basis(Enum):
    """What the figure stands on."""

    MEASURED = "measured"
    """The median of passes of one row: no draft, no seed, nobody else."""
    MODELLED = "modelled"
    """A pass of one row, by the passes of more."""
    ESTIMATED = "estimated"
    """The longest of the shortest tenth of all passes."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The target alone: tokens per second, and how we know."""

    tokens_per_s: float
    basis: Basis
    num_passes: int


class AlonePace:
    """The latest passes.

    Attributes:
        cost: time of passes by their rows, where somebody learns that.
    """

    def __init__(self) -> None:
        self.cost: PassCost | None = None
        self._plain: deque[float] = deque(maxlen=NUM_KEPT)
        self._all: deque[float] = deque(maxlen=NUM_KEPT)

    def __repr__(self) -> str:
        return f"<AlonePace {self.alone()}>"

    def passed(self, duration_s: float, *, plain: bool) -> None:
        """A pass took `duration_s`.

        Args:
            plain: it had one row; never true where nobody can tell.
        """
        if duration_s > 0:
            self._all.append(duration_s)
            if plain:
                self._plain.append(duration_s)

    def alone(self) -> Alone | None:
        """The best that is known; None before enough passes."""
        if len(self._plain) >= MIN_MEASURED:
            return Alone(1.0 / median(self._plain), Basis.MEASURED, len(self._plain))
        if len(self._all) < MIN_ESTIMATED:
            return None
        short_s, cost = quantiles(self._all, n=10)[0], self.cost
        if cost is not None and cost.num_observed >= MIN_ESTIMATED:
            plain_s = min(cost.pass_s(1), short_s)
            return Alone(1.0 / plain_s, Basis.MODELLED, cost.num_observed)
        return Alone(1.0 / short_s, Basis.ESTIMATED, len(self._all))
