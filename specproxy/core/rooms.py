"""Which sequence lives in which room of the KV cache, and what is cached there.

A room is one sequence id of the context. A closed sequence leaves its tokens behind: the next one
with the same beginning (a conversation's next turn) reads only what is new.

Invariant: `Room.tokens` are exactly the tokens at positions 0..len-1 of that sequence id; whoever
changes the native cache changes them in the same breath. Pure bookkeeping, no native call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specproxy.core.prefix import common_prefix


@dataclass(eq=False, slots=True)
class Room:
    """A sequence id of the context.

    Attributes:
        owner: key of the open sequence that lives here; None when it is free.
        busy: whether a job works in it, which protects it from eviction.
        last_used: tick of the last use.
    """

    sequence: int
    tokens: list[int] = field(default_factory=list)
    owner: int | None = None
    busy: bool = False
    last_used: int = 0


class Rooms:
    """All rooms of a context."""

    def __init__(self, num_rooms: int) -> None:
        self._rooms = [Room(sequence) for sequence in range(num_rooms)]
        self._tick = 0

    def __repr__(self) -> str:
        owned = sum(room.owner is not None for room in self._rooms)
        busy = sum(room.busy for room in self._rooms)
        cells = sum(len(room.tokens) for room in self._rooms)
        return f"<Rooms {len(self._rooms)}: {owned} owned, {busy} busy, {cells} cells>"

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms)

    def acquire(self, owner: int, tokens: Sequence[int]) -> Room | None:
        """A room for `owner`, busy until `release`; None when all of them are busy.

        Its own room; else the free one that `tokens` continue best; else the least recently used
        idle one, whose owner loses its cache.
        """
        room = next((room for room in self._rooms if room.owner == owner), None)
        if room is None:
            free = [room for room in self._rooms if room.owner is None and not room.busy]
            idle = [room for room in self._rooms if not room.busy]
            if free:
                room = max(free, key=lambda r: (_num_reused(r, tokens), -r.last_used))
            elif idle:
                room = min(idle, key=lambda r: r.last_used)
            else:
                return None
        room.owner = owner
        room.busy = True
        self._touch(room)
        return room

    def best_donor(self, room: Room, tokens: Sequence[int]) -> tuple[Room | None, int]:
        """The other room that holds the longest beginning of `tokens`, and its length."""
        others = [
            (common_prefix(other.tokens, tokens), other)
            for other in self._rooms
            if other is not room
        ]
        num_shared, donor = max(others, key=lambda item: item[0], default=(0, None))
        return donor, num_shared

    def release(self, room: Room) -> None:
        """The job in `room` ended."""
        room.busy = False
        self._touch(room)

    def vacate(self, owner: int) -> None:
        """`owner` is gone; its tokens stay for whoever can use them."""
        for room in self._rooms:
            if room.owner == owner:
                room.owner = None

    def evictable(self) -> Room | None:
        """The room to empty when cells run out: free ones first, then least recently used."""
        candidates = [room for room in self._rooms if room.tokens and not room.busy]
        return min(candidates, key=lambda r: (r.owner is not None, r.last_used), default=None)

    def _touch(self, room: Room) -> None:
        self._tick += 1
        room.last_used = self._tick


def _num_reused(room: Room, tokens: Sequence[int]) -> int:
    """Cached tokens that `tokens` can use; 0 where more would be lost than won."""
    num_shared = common_prefix(room.tokens, tokens)
    return num_shared if 2 * num_shared >= len(room.tokens) else 0
