"""When bytes arrive on an emulated link. Pure: times and random numbers come in.

A link has half its round trip as delay, something more by chance, and a rate at which bytes enter
it, one after the other.

Invariant: bytes arrive in order, none earlier than half a round trip after it was sent; a change of
the link holds for what is sent from then on.
"""

import random
from dataclasses import dataclass


@dataclass(slots=True)
class LinkSpeed:
    """How a link is; may be changed while it is used.

    Attributes:
        rtt_ms: round trip, half of it each way.
        jitter_ms: each chunk is later by up to this, evenly distributed.
        mbit_s: rate of each direction, millions of bits per second; None: without limit.
    """

    rtt_ms: float
    jitter_ms: float = 0.0
    mbit_s: float | None = None


class Pacing:
    """The times of one direction."""

    def __init__(self, speed: LinkSpeed, rng: random.Random) -> None:
        self._speed = speed
        self._rng = rng
        self._free_s = 0.0
        self._last_s = 0.0

    def arrival_s(self, now_s: float, num_bytes: int) -> float:
        """When a chunk that is sent now has arrived, all of it."""
        speed = self._speed
        entered_s = max(now_s, self._free_s)
        if speed.mbit_s is not None:
            entered_s += num_bytes * 8 / (speed.mbit_s * 1e6)
            self._free_s = entered_s
        jitter_ms = self._rng.uniform(0.0, speed.jitter_ms) if speed.jitter_ms else 0.0
        delay_s = (max(0.0, speed.rtt_ms) / 2 + jitter_ms) / 1000
        self._last_s = max(self._last_s, entered_s + delay_s)
        return self._last_s
