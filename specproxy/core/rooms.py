"""Which sequence lives in which room of the KV cache, and what is cached there.

A room is one sequence id of the context. A closed sequence leaves its tokens behind: the next one
with the same beginning (a conversation's next turn) reads only what is new. An open one loses its
room to another only where that costs it little.

Invariant: `Room.tokens` are exactly the tokens at positions 0..len-1 of that sequence id; whoever
changes the native cache changes them in the same breath. Pure bookkeeping, no native call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specproxy.core.prefix import common_prefix

DEAR_TOKENS = 32
"""With more tokens that no other room has, an open sequence keeps its room: to read them again
would cost it more than the other wins. Branches of a draft share all but a few with its line."""


@dataclass(eq=False, slots=True)
class Room:
    """A sequence id of the context.

    Attributes:
        num_left_out: tokens of its context, after the first one, that `tokens` does without.
        owner: key of the open sequence that lives here; None when it is free.
        busy: whether a job works in it, which protects it from eviction.
        last_used: tick of the last use.
    """

    sequence: int
    tokens: list[int] = field(default_factory=list)
    num_left_out: int = 0
    owner: int | None = None
    busy: bool = False
    last_used: int = 0


class Rooms:
    """All rooms of a context.

    Attributes:
        can_cut: the cache can forget or share a part of a sequence; where it cannot, as with
            recurrent models, a room serves sequences that begin with all of its tokens.
    """

    def __init__(self, num_rooms: int, *, can_cut: bool = True) -> None:
        self.can_cut = can_cut
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
        """A room for `owner`, busy until `release`; None where none can be had now.

        Its own room; else the free one that `tokens` continue best; else the least recently used
        idle one whose owner loses little by it.
        """
        room = next((room for room in self._rooms if room.owner == owner), None)
        if room is None:
            idle = [room for room in self._rooms if not room.busy]
            free = [room for room in idle if room.owner is None]
            if free:
                room = max(free, key=lambda r: (self._num_reused(r, tokens), -r.last_used))
            else:
                cheap = [room for room in idle if self.is_cheap(room, tokens)]
                room = min(cheap, key=lambda r: r.last_used, default=None)
        if room is None:
            return None
        room.owner = owner
        room.busy = True
        self._touch(room)
        return room

    def may_wait(self, tokens: Sequence[int]) -> bool:
        """Whether one of the busy rooms may be had for `tokens` when its job is done."""
        return any(
            room.busy and (room.owner is None or self.is_cheap(room, tokens))
            for room in self._rooms
        )

    def is_cheap(self, room: Room, tokens: Sequence[int] = ()) -> bool:
        """Whether nearly all that `room` holds is in other rooms, or will be with `tokens`."""
        _, num_elsewhere = self.best_donor(room, room.tokens)
        num_shared = max(num_elsewhere, self.num_usable(room, tokens))
        return len(room.tokens) - num_shared <= DEAR_TOKENS

    def best_donor(self, room: Room, tokens: Sequence[int]) -> tuple[Room | None, int]:
        """The other room that holds the longest beginning of `tokens`, and its length."""
        others = [
            (self.num_usable(other, tokens), other) for other in self._rooms if other is not room
        ]
        num_shared, donor = max(others, key=lambda item: item[0], default=(0, None))
        return donor, num_shared

    def num_usable(self, room: Room, tokens: Sequence[int]) -> int:
        """How many of the room's tokens a sequence of `tokens` can use."""
        num_shared = common_prefix(room.tokens, tokens)
        return num_shared if self.can_cut or num_shared == len(room.tokens) else 0

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

    def surplus(self, num_kept: int) -> Room | None:
        """The free room to empty where more than `num_kept` of them hold tokens: one whose
        tokens others hold, too, then the least recently used."""
        free = [room for room in self._rooms if room.owner is None and not room.busy]
        left = [room for room in free if room.tokens]
        if len(left) <= num_kept:
            return None
        return min(left, key=lambda r: (not self.is_cheap(r), r.last_used))

    def _num_reused(self, room: Room, tokens: Sequence[int]) -> int:
        """Cached tokens that `tokens` can use; 0 where more would be lost than won."""
        num_shared = self.num_usable(room, tokens)
        return num_shared if 2 * num_shared >= len(room.tokens) else 0

    def _touch(self, room: Room) -> None:
        self._tick += 1
        room.last_used = self._tick
