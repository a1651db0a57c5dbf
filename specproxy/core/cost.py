"""How long a pass takes, learned from passes: a fixed time, and some for each row.

The fixed part is mostly the round trips to the workers; the time per row is computation and wire.
Pure: durations are passed in.

Invariant: both parts are positive, from the first question on. First passes of a new shape are not
for `observe`: they cost extra round trips (see `coordinator.shapes`).
"""

MAX_ROWS = 96
"""Larger passes read prompts; what they cost per row says little of small ones."""

_PRIOR_FIXED_S = 0.05
_PRIOR_ROW_S = 0.002
_PRIOR_WEIGHT = 0.5
_FORGETTING = 0.97
_KNOWN_PASSES, _MAX_SURPRISE = 3, 3.0
_MIN_S = 1e-6
_GATHER_SHARE = 0.15


class PassCost:
    """Weighted least squares over past passes, the latest counting most.

    Attributes:
        fixed_s, row_s: a pass of n rows takes about fixed_s + n * row_s.
        num_observed: passes seen.
    """

    def __init__(self) -> None:
        self.fixed_s = _PRIOR_FIXED_S
        self.row_s = _PRIOR_ROW_S
        self.num_observed = 0
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def __repr__(self) -> str:
        return f"<PassCost {self.fixed_s * 1e3:.1f} ms + {self.row_s * 1e3:.2f} ms per row>"

    def pass_s(self, num_rows: int) -> float:
        """Expected time of a pass."""
        return self.fixed_s + self.row_s * num_rows

    def rows_in(self, duration_s: float) -> int:
        """Rows whose own time, without the fixed part, is `duration_s`; at least one."""
        return max(1, int(duration_s / self.row_s))

    @property
    def wait_s(self) -> float:
        """How long an answer waits for drafts at most: about a plain pass. A dead or slow drafter
        never costs more than that."""
        return self.pass_s(1)

    @property
    def gather_s(self) -> float:
        """How long a ready answer waits for the others, so that sessions fall into step instead
        of alternating half-empty passes."""
        return _GATHER_SHARE * self.pass_s(1)

    def plausible_s(self, num_rows: int, duration_s: float) -> float:
        """What a pass that took `duration_s` counts as: one much slower than expected (a hiccup of
        the network, somebody else's prompt) is a moderately slow one, once passes are known."""
        if self.num_observed < _KNOWN_PASSES:
            return duration_s
        return min(duration_s, _MAX_SURPRISE * self.pass_s(num_rows))

    def observe(self, num_rows: int, duration_s: float) -> None:
        """A pass of a known shape took so long."""
        if num_rows > MAX_ROWS:
            return
        if not self.num_observed:  # it tells how quick passes are here, not what they consist of
            share = min(1.0, duration_s / self.pass_s(num_rows))
            self.fixed_s, self.row_s = share * self.fixed_s, share * self.row_s
        duration_s = self.plausible_s(num_rows, duration_s)
        self.num_observed += 1
        self._weight = _FORGETTING * self._weight + 1.0
        self._x = _FORGETTING * self._x + num_rows
        self._y = _FORGETTING * self._y + duration_s
        self._xx = _FORGETTING * self._xx + num_rows * num_rows
        self._xy = _FORGETTING * self._xy + num_rows * duration_s
        self._fit()

    def _fit(self) -> None:
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx - self._x * mean_x
        covariance = self._xy - self._x * mean_y
        # Little spread in the numbers of rows: the slope stays near what it was.
        trust = _PRIOR_WEIGHT * mean_x * mean_x
        slope = (covariance + trust * min(self.row_s, mean_y / mean_x)) / (spread + trust)
        self.row_s = min(max(slope, _MIN_S), max(mean_y / mean_x, _MIN_S))
        self.fixed_s = max(mean_y - self.row_s * mean_x, _MIN_S)
