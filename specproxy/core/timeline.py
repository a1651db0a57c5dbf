"""Tallies by time: a bounded row of periods of one length.

Times are those of the day in seconds. A clock that is put back adds to the newest period.
"""

from collections import deque
from collections.abc import Sequence

from specproxy.core.tally import Tally


class Timeline:
    """The last `num_periods` periods of `period_s` each; those in which nothing happened are left
    out."""

    def __init__(self, period_s: float, num_periods: int) -> None:
        self.period_s = period_s
        self.num_periods = num_periods
        self._periods: deque[tuple[int, Tally]] = deque()

    def __repr__(self) -> str:
        return f"<Timeline {len(self._periods)} of {self.period_s:g} s>"

    def add(self, now_s: float, tally: Tally) -> None:
        """Count `tally` in the present period."""
        index = int(now_s // self.period_s)
        if not self._periods or self._periods[-1][0] < index:
            self._periods.append((index, Tally()))
            self._drop(index)
        self._periods[-1][1].add(tally)

    def _drop(self, index: int) -> None:
        while self._periods and self._periods[0][0] <= index - self.num_periods:
            self._periods.popleft()

    def recent(self, now_s: float, duration_s: float) -> Tally:
        """All of the last `duration_s`, rounded up to whole periods."""
        first = int((now_s - duration_s) // self.period_s)
        total = Tally()
        for index, tally in self._periods:
            if index >= first:
                total.add(tally)
        return total

    def points(self, now_s: float) -> Sequence[tuple[float, Tally]]:
        """(start of the period, what happened in it), oldest first."""
        first = int(now_s // self.period_s) - self.num_periods
        return [(i * self.period_s, tally) for i, tally in self._periods if i > first]

    def saved(self) -> list[list[object]]:
        """For a file; `restore` reads it."""
        return [[index, tally.saved()] for index, tally in self._periods]

    def restore(self, saved: object, now_s: float) -> None:
        """Put back what was saved, as far as it is not too old by now.

        Raises:
            ValueError: it is no timeline.
        """
        if not isinstance(saved, list):
            raise ValueError("no timeline")
        periods: list[tuple[int, Tally]] = []
        for entry in saved[-self.num_periods :]:
            if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) is not int:
                raise ValueError("no period")
            periods.append((entry[0], Tally.restored(entry[1])))
        present = int(now_s // self.period_s)
        kept = sorted((p for p in periods if p[0] <= present), key=lambda period: period[0])
        self._periods = deque(kept)
        self._drop(present)
