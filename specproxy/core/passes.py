"""When the target's passes end, heard from its answers; when a seed should leave.

All tokens that one pass confirmed arrive together; a pause between two arrivals is a pass. The
server takes up new requests between passes only, so a seed that leaves early in a pass gains
nothing, and lacks what is drafted during the rest of it; one that comes late loses a pass.
"""

from collections import deque

BURST = 0.3
"""Arrivals closer than this share of a pass belong to the same one."""
MIN_GAP_S = 0.005
"""So do arrivals closer than this, however short a pass may seem."""
DUE = 0.7
"""The share of a pass after which a seed leaves."""


class PassClock:
    """Pass ends of one target. Times are the caller's monotonic clock, in seconds.

    Attributes:
        num_passes: heard so far; what two arrivals with the same number brought, one pass did.
    """

    def __init__(self) -> None:
        self.num_passes = 0
        self._last_end: float | None = None
        self._last_heard: float | None = None
        self._periods: deque[float] = deque(maxlen=12)

    def __repr__(self) -> str:
        return f"<PassClock period={self.period_s:.3f}>"

    @property
    def period_s(self) -> float:
        """Time of a short one of the latest passes (lower quartile); 0 while unknown.

        What follows a miss, where a seed is most wanted, are the shortest passes of all.
        """
        ordered = sorted(self._periods)
        return ordered[len(ordered) // 4] if ordered else 0.0

    def heard(self, now_s: float) -> None:
        """Output of the target has arrived."""
        if self._last_heard is None or self._is_new_pass(now_s - self._last_heard):
            if self._last_end is not None:
                self._periods.append(now_s - self._last_end)
            self._last_end = now_s
            self.num_passes += 1
        self._last_heard = now_s

    def _is_new_pass(self, gap_s: float) -> bool:
        return gap_s > max(MIN_GAP_S, BURST * self.period_s)

    def quiet(self) -> None:
        """No answer is running; the next arrival ends no pass that began with the last."""
        self._last_end = self._last_heard = None

    def wait_s(self, now_s: float) -> float:
        """How long a seed should still wait for more to be drafted; 0: send it now."""
        if self._last_end is None:
            return 0.0
        return max(0.0, self._last_end + DUE * self.period_s - now_s)
