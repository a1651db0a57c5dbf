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
DUE = 0.85
"""The share of a pass after which a seed leaves; less for a while, where passes end before."""
LEAST_DUE = 0.4
_HURRY, _RELAX = 0.8, 1.03


class PassClock:
    """Pass ends of one target. Times are the caller's monotonic clock, in seconds.

    Attributes:
        num_passes: heard so far; what two arrivals with the same number brought, one pass did.
        last_s: time of the last pass that was heard whole; None if that is not known.
        travel_s: of a request to the target and its reply, without the pass: what is heard of a
            pass is half of that old, and what is sent now is there only half of it later.
    """

    def __init__(self) -> None:
        self.num_passes = 0
        self.last_s: float | None = None
        self.travel_s = 0.0
        self._last_end: float | None = None
        self._last_heard: float | None = None
        self._expected_s: float | None = None
        self._due = DUE
        self._periods: deque[float] = deque(maxlen=12)

    def __repr__(self) -> str:
        return f"<PassClock period={self.period_s:.3f}>"

    @property
    def is_quiet(self) -> bool:
        """No pass end is known that the present pass began with."""
        return self._last_end is None

    @property
    def period_s(self) -> float:
        """Time of a short one of the latest passes (lower quartile); 0 while unknown.

        What follows a miss, where a seed is most wanted, are the shortest passes of all.
        """
        ordered = sorted(self._periods)
        return ordered[len(ordered) // 4] if ordered else 0.0

    def heard(self, now_s: float) -> bool:
        """Output of the target has arrived; returns whether a pass has brought its first."""
        is_new = self._last_heard is None or self._is_new_pass(now_s - self._last_heard)
        if is_new:
            self.last_s = None if self._last_end is None else now_s - self._last_end
            if self.last_s is not None:
                self._periods.append(self.last_s)
            self._last_end = now_s
            self._expected_s = None
            self.num_passes += 1
        self._last_heard = now_s
        return is_new

    def missed(self) -> None:
        """A pass has ended before a seed was due."""
        self._due = max(LEAST_DUE, self._due * _HURRY)

    def met(self) -> None:
        """A seed has left when it was due."""
        self._due = min(DUE, self._due * _RELAX)

    def expect(self, duration_s: float) -> None:
        """The present pass will take about `duration_s`."""
        self._expected_s = duration_s

    def _is_new_pass(self, gap_s: float) -> bool:
        return gap_s > self._burst_s

    @property
    def _burst_s(self) -> float:
        return max(MIN_GAP_S, BURST * self.period_s)

    def unsettled_s(self, now_s: float) -> float:
        """How long more of what the last pass brought may still arrive; 0: all is here."""
        if self._last_end is None:
            return 0.0
        return max(0.0, self._last_end + self._burst_s - now_s)

    def quiet(self) -> None:
        """No answer is running; the next arrival ends no pass that began with the last."""
        self._last_end = self._last_heard = self._expected_s = None

    def wait_s(self, now_s: float) -> float:
        """How long a seed should still wait for more to be drafted; 0: send it now."""
        if self._last_end is None:
            return 0.0
        expected_s = self.period_s if self._expected_s is None else self._expected_s
        return max(0.0, self._last_end + self._due * expected_s - self.travel_s - now_s)
