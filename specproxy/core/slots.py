"""Leases of the target's slots: one per running answer, by conversation; the last for seeds.

A conversation that comes back gets the slot that still holds its beginning, so that the
target's prefix cache stays warm. Pure: who waits is told by a callback, in order of arrival.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from specproxy.core.prefix import common_prefix


@dataclass(slots=True)
class _Slot:
    index: int
    transcript: str = ""
    busy: bool = False
    last_used: int = 0


@dataclass(slots=True, eq=False)
class Lease:
    """A right to one slot; `slot` is None while it still waits."""

    transcript: str
    on_granted: Callable[[], None]
    slot: int | None = None
    released: bool = field(default=False)


class SlotLeases:
    """Slots `0 .. num_slots - 1` of one target.

    Args:
        num_slots: how many slots answers may use, the seed slot not counted; at least 1.
    """

    def __init__(self, num_slots: int) -> None:
        self._slots = [_Slot(index) for index in range(num_slots)]
        self._waiting: deque[Lease] = deque()
        self._clock = 0

    def __repr__(self) -> str:
        return f"<SlotLeases busy={self.num_busy}/{len(self._slots)} waiting={self.num_waiting}>"

    @property
    def num_busy(self) -> int:
        return sum(slot.busy for slot in self._slots)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def acquire(self, transcript: str, on_granted: Callable[[], None]) -> Lease:
        """Ask for the slot that suits a conversation best.

        Args:
            transcript: the conversation so far, as a text that later turns extend.
            on_granted: called once the lease has its slot; at once if one is free.
        """
        lease = Lease(transcript, on_granted)
        self._waiting.append(lease)
        self._grant()
        return lease

    def release(self, lease: Lease) -> None:
        """Give the lease up, granted or waiting. Idempotent."""
        if lease.released:
            return
        lease.released = True
        if lease.slot is None:
            self._waiting.remove(lease)
            return
        slot = self._slots[lease.slot]
        slot.busy = False
        self._clock += 1
        slot.last_used = self._clock
        self._grant()

    def _grant(self) -> None:
        while self._waiting:
            idle = [slot for slot in self._slots if not slot.busy]
            if not idle:
                return
            lease = self._waiting.popleft()
            slot = max(idle, key=lambda slot: _fitness(slot, lease.transcript))
            slot.busy, slot.transcript, lease.slot = True, lease.transcript, slot.index
            lease.on_granted()


def _fitness(slot: _Slot, transcript: str) -> tuple[int, bool, int, int]:
    """The slot whose conversation goes on; else an unused one, so that no other conversation
    loses its cache; else the one with the most of this beginning; else the oldest use."""
    goes_on = bool(slot.transcript) and transcript.startswith(slot.transcript)
    shared = common_prefix(slot.transcript, transcript)
    return (
        len(slot.transcript) if goes_on else 0,
        not slot.transcript,
        shared if 2 * shared > len(slot.transcript) else 0,
        -slot.last_used,
    )
