"""Leases of the target's slots: one per running answer, by conversation; the last for seeds.

A conversation that comes back gets the slot that still holds its beginning, so that the
target's prefix cache stays warm. Pure: who waits is told by a callback, in order of arrival.

Whoever does not name its slot gets the idle one that was used least recently, as llama-server with
`-sps 0` does it. So the order of use is kept here, too, that of the seed slot included.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from specproxy.core.prefix import common_prefix


@dataclass(slots=True)
class _Slot:
    """
    Attributes:
        num_held: leases of it; several only where clients name it themselves.
        last_used: by a count of uses; 0: not known.
    """

    index: int
    transcript: str = ""
    num_held: int = 0
    last_used: int = 0


@dataclass(slots=True, eq=False)
class Lease:
    """A right to one slot; `slot` is None while it still waits."""

    transcript: str
    on_granted: Callable[[], None]
    slot: int | None = None
    released: bool = field(default=False)


class SlotLeases:
    """Slots `0 .. num_slots - 1` of one target; the one after them is for seeds.

    Args:
        num_slots: how many slots answers may use, the seed slot not counted; at least 1.
    """

    def __init__(self, num_slots: int) -> None:
        self._slots = [_Slot(index) for index in range(num_slots)]
        self._seed_slot = _Slot(num_slots)
        self._all = [*self._slots, self._seed_slot]
        self._waiting: deque[Lease] = deque()
        self._clock = 0
        self.used([num_slots])  # by the probe

    def __repr__(self) -> str:
        return f"<SlotLeases busy={self.num_busy}/{len(self._slots)} waiting={self.num_waiting}>"

    @property
    def num_busy(self) -> int:
        return len(self._slots) - len(self._idle)

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

    def take(self, num_choices: int, *, seeding: bool) -> list[Lease]:
        """The slots that the target will choose for a prompt that waits for none here, as far as
        any are idle: the least recently used one, for more choices the first ones.

        Args:
            num_choices: fewer than one are one, for that is what a prompt takes at least.
            seeding: seeds keep the seed slot in use; else it may be chosen, too.

        Source: `get_available_slot`, `get_free_slots` in llama.cpp's server-context.cpp.
        """
        idle = self._idle_for_target(seeding=seeding)
        if not idle:
            return []
        first = min(idle, key=lambda slot: (slot.last_used, -slot.index))
        more = [slot for slot in idle if slot is not first][: max(0, num_choices - 1)]
        return [_hold(slot, Lease("", _nobody_waits)) for slot in (first, *more)]

    def take_named(self, index: int) -> list[Lease]:
        """The slot that a client has named, idle or not."""
        return [_hold(self._all[index % len(self._all)], Lease("", _nobody_waits))]

    def release(self, lease: Lease) -> None:
        """Give the lease up, granted or waiting. Idempotent."""
        if lease.released:
            return
        lease.released = True
        if lease.slot is None:
            self._waiting.remove(lease)
            return
        self._all[lease.slot].num_held -= 1
        self.used([lease.slot])
        self._grant()

    def rivals(self, lease: Lease, *, seeding: bool) -> list[int]:
        """The idle slots that the target may choose before the granted lease's, since they may
        have rested as long.

        Args:
            seeding: seeds keep the seed slot in use.
        """
        assert lease.slot is not None, "not granted yet"
        wanted = self._slots[lease.slot]
        idle = self._idle_for_target(seeding=seeding)
        return [slot.index for slot in idle if slot.last_used <= wanted.last_used]

    def used(self, slots: Iterable[int]) -> None:
        """The target has used them for something, in whatever order, and is done with it."""
        self._clock += 1
        for index in slots:
            self._all[index].last_used = self._clock

    @property
    def _idle(self) -> list[_Slot]:
        return [slot for slot in self._slots if not slot.num_held]

    def _idle_for_target(self, *, seeding: bool) -> list[_Slot]:
        """The target knows of no slot that is for seeds only."""
        slots = self._slots if seeding else self._all
        return [slot for slot in slots if not slot.num_held]

    def _grant(self) -> None:
        while self._waiting and (idle := self._idle):
            lease = self._waiting.popleft()
            _hold(max(idle, key=lambda slot: _fitness(slot, lease.transcript)), lease)
            lease.on_granted()


def _hold(slot: _Slot, lease: Lease) -> Lease:
    slot.num_held += 1
    slot.transcript, lease.slot = lease.transcript, slot.index
    return lease


def _nobody_waits() -> None:
    pass


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
