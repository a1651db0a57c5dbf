"""How many rows each job gets in a decode step.

Drafting jobs get the one row they need. Reading jobs share a chunk whose size follows the measured
speed, so that a step stays short: a long prompt must not hold up the tokens of other sequences,
nor a cancellation. Pure; durations are passed in.
"""

from collections.abc import Sequence

STEP_ALONE_S = 0.2
STEP_SHARED_S = 0.06
MIN_CHUNK = 8
_SMOOTHING = 0.3


class ReadPace:
    """Chunk size from the measured time per row."""

    def __init__(self, max_chunk: int) -> None:
        self._max_chunk = max_chunk
        self._seconds_per_row: float | None = None

    def observe(self, num_rows: int, duration_s: float) -> None:
        """A step of `num_rows` took `duration_s`; small ones say nothing about chunks."""
        if num_rows < MIN_CHUNK:
            return
        measured = duration_s / num_rows
        known = self._seconds_per_row
        self._seconds_per_row = (
            measured if known is None else known + _SMOOTHING * (measured - known)
        )

    def chunk(self, *, shared: bool) -> int:
        """Rows of a prompt for the next step; `shared`: other sequences draft in it."""
        budget_s = STEP_SHARED_S if shared else STEP_ALONE_S
        if self._seconds_per_row is None:
            return min(MIN_CHUNK * 2, self._max_chunk)
        rows = int(budget_s / max(self._seconds_per_row, 1e-9))
        return max(1, min(max(rows, MIN_CHUNK), self._max_chunk))


def share_rows(num_pending: Sequence[int], chunk: int) -> list[int]:
    """Rows for each job of a step, given how many tokens each has to evaluate (at least 1).

    A job with one pending token gets it; the others share `chunk` evenly, and what a short one
    leaves over goes to the rest. Every job gets at least one row.
    """
    shares = [1] * len(num_pending)
    readers = sorted((i for i, n in enumerate(num_pending) if n > 1), key=num_pending.__getitem__)
    left = chunk
    for num_done, i in enumerate(readers):
        shares[i] = max(1, min(num_pending[i], left // (len(readers) - num_done)))
        left -= shares[i]
    return shares
