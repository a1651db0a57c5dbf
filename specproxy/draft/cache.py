"""The draft's KV cache: which sequence lives where, prefix reuse, room made when cells run out.

Invariant: this object alone changes what the native cache holds, but for decoding itself; each
room's tokens are exactly its cells, and its lookup knows no longer sequence than that.
"""

from collections.abc import Sequence

from specproxy.core.prefix import common_prefix
from specproxy.core.rooms import Room, Rooms
from specproxy.draft.jobs import Job
from specproxy.draft.lookup import Lookup
from specproxy.llama.context import Context


class DraftCache:
    """The rooms of one context.

    Attributes:
        can_cut: the cache can forget a part of a sequence; recurrent models cannot.
    """

    def __init__(self, context: Context, num_rooms: int) -> None:
        self.can_cut = True
        self._context = context
        self._rooms = Rooms(num_rooms)
        self._lookups = [Lookup() for _ in range(num_rooms)]

    def __repr__(self) -> str:
        return f"<DraftCache {self._rooms!r}>"

    def enter(self, job: Job) -> bool:
        """Give `job` a room and its pending tokens; False: all rooms are busy.

        The last token is evaluated even if it is cached: its logits are wanted. A job that only
        reads leaves it to the draft that follows.
        """
        room = self._rooms.acquire(job.owner, job.tokens)
        if room is None:
            return False
        job.room = room
        num_wanted = len(job.tokens) - 1
        self._share_prefix(room, job.tokens)
        num_cached = min(common_prefix(room.tokens, job.tokens), num_wanted)
        if num_cached < len(room.tokens) and (job.num_tokens or num_cached < num_wanted):
            num_cached = self.cut(room, num_cached)
        if not num_cached:
            self._lookups[room.sequence].forget()
        job.pending = job.tokens[num_cached : None if job.num_tokens else num_wanted]
        return True

    def leave(self, job: Job) -> None:
        """`job` is over; its tokens stay for the next one."""
        if job.room is not None:
            self._rooms.release(job.room)
            job.room = None

    def vacate(self, owner: int) -> None:
        """`owner` is gone; its tokens stay for whoever can use them."""
        self._rooms.vacate(owner)

    def cut(self, room: Room, num_kept: int) -> int:
        """Cut a room down to `num_kept` tokens; returns how many are left: maybe none."""
        if not self._context.seq_rm(room.sequence, num_kept):
            self._context.seq_rm(room.sequence)
            num_kept = 0
            self.can_cut = False
        del room.tokens[num_kept:]
        self._lookups[room.sequence].cut(num_kept)
        return num_kept

    def evict(self) -> bool:
        """Empty a room where nothing is going on; False: there is none."""
        room = self._rooms.evictable()
        if room is None:
            return False
        self.cut(room, 0)
        return True

    def guess(self, room: Room, pending: Sequence[int], num_tokens: int) -> list[int]:
        """What may follow the room's tokens and `pending`."""
        lookup = self._lookups[room.sequence]
        lookup.learn(room.tokens)
        return lookup.guess([*room.tokens[-lookup.key_tokens :], *pending], num_tokens)

    def _share_prefix(self, room: Room, tokens: list[int]) -> None:
        """Take over the cells of another room that knows more of `tokens`; nothing is read."""
        donor, num_shared = self._rooms.best_donor(room, tokens)
        if donor is not None and num_shared > common_prefix(room.tokens, tokens):
            self.cut(room, 0)
            self._context.seq_cp(donor.sequence, room.sequence, 0, num_shared)
            room.tokens[:] = donor.tokens[:num_shared]
