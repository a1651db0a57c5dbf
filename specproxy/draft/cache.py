"""The draft's KV cache: which sequence lives where, prefix reuse, room made when cells run out.

Invariant: this object alone changes what the native cache holds, but for decoding itself; each
room's tokens are exactly its cells, and its lookup knows no longer sequence than that.
"""

from collections.abc import Sequence

from specproxy.core.prefix import common_prefix
from specproxy.core.rooms import DEAR_TOKENS, Room, Rooms
from specproxy.draft.jobs import Job
from specproxy.draft.lookup import Lookup
from specproxy.draft.reach import Reach, without
from specproxy.llama.context import Context

MAX_LEFT_ROOMS = 4
"""So many rooms keep what closed sequences left: each step of the draft, whoever it is for, goes
through all cells up to the last one in use."""
_KNOWN_TOKENS = 16


class DraftCache:
    """The rooms of one context.

    Attributes:
        reach: how much of a context is read.
    """

    def __init__(self, context: Context, num_rooms: int, reach: Reach) -> None:
        self.reach = reach
        self._context = context
        self._rooms = Rooms(num_rooms, can_cut=context.can_cut)
        self._lookups = [Lookup() for _ in range(num_rooms)]

    def __repr__(self) -> str:
        return f"<DraftCache {self._rooms!r} {self.reach!r}>"

    @property
    def can_cut(self) -> bool:
        """Whether the cache can forget a part of a sequence; recurrent models cannot."""
        return self._rooms.can_cut

    def enter(self, job: Job) -> bool:
        """Give `job` a room and its pending tokens; False: there is none to be had now.

        What the draft leaves out of a long context is left out of the job's tokens, too. The last
        token is evaluated even if it is cached: its logits are wanted. A job that only reads
        leaves it to the draft that follows.
        """
        num_left_out = self._num_left_out(job)
        tokens = without(job.tokens, num_left_out)
        room = self._rooms.acquire(job.owner, tokens)
        if room is None:
            return False
        job.room = room
        job.tokens = tokens
        room.num_left_out = num_left_out
        num_wanted = len(tokens) - 1
        self._share_prefix(room, tokens)
        num_cached = min(self._rooms.num_usable(room, tokens), num_wanted)
        if num_cached < len(room.tokens) and (job.num_tokens or num_cached < num_wanted):
            num_cached = self.cut(room, num_cached)
        if not num_cached:
            self._lookups[room.sequence].forget()
        job.pending = tokens[num_cached : None if job.num_tokens else num_wanted]
        return True

    def may_wait(self, job: Job) -> bool:
        """Whether a job that could not enter may enter when another is over."""
        return self._rooms.may_wait(job.tokens)

    def leave(self, job: Job) -> None:
        """`job` is over; its tokens stay for the next one."""
        if job.room is not None:
            self._rooms.release(job.room)
            job.room = None

    def vacate(self, owner: int) -> None:
        """`owner` is gone; its tokens stay for whoever can use them, while they are not many."""
        self._rooms.vacate(owner)
        while room := self._rooms.surplus(MAX_LEFT_ROOMS):
            self.cut(room, 0)
        if all(room.owner is None for room in self._rooms):
            self.reach.widen()

    def cut(self, room: Room, num_kept: int) -> int:
        """Cut a room down to `num_kept` tokens; returns how many are left: maybe none."""
        if not self._context.seq_rm(room.sequence, num_kept):
            self._context.seq_rm(room.sequence)
            num_kept = 0
            self._rooms.can_cut = False
        del room.tokens[num_kept:]
        self._lookups[room.sequence].cut(num_kept)
        return num_kept

    def evict(self) -> bool:
        """Empty a room where nothing is going on; False: there is none.

        Where that costs an open sequence its context, all get a smaller share from now on: else
        each would cost another its own, again and again.
        """
        room = self._rooms.evictable()
        if room is None:
            return False
        if room.owner is not None and not self._rooms.is_cheap(room):
            self.reach.narrow()
        self.cut(room, 0)
        return True

    def guess(self, room: Room, pending: Sequence[int], num_tokens: int) -> list[int]:
        """What may follow the room's tokens and `pending`."""
        lookup = self._lookups[room.sequence]
        lookup.learn(room.tokens)
        return lookup.guess([*room.tokens[-lookup.key_tokens :], *pending], num_tokens)

    def _num_left_out(self, job: Job) -> int:
        """How many of the job's tokens the draft does without.

        As many as a room does that knows the rest: a miss at the limit, or the branches of a line
        that has just passed it, shall not have the context read once more.
        """
        known = [
            room.num_left_out
            for room in self._rooms
            if room.num_left_out
            and self.reach.suits(len(job.tokens) - room.num_left_out)
            and common_prefix(room.tokens, without(job.tokens, room.num_left_out)) >= _KNOWN_TOKENS
        ]
        num_left_out = max(known, default=0)
        if not num_left_out:
            num_left_out = self.reach.num_left_out(len(job.tokens))
            self._supersede(job, num_left_out)
        return num_left_out

    def _supersede(self, job: Job, num_left_out: int) -> None:
        """The job's context begins later now: rooms that hold it from earlier on are free."""
        for room in self._rooms:
            if room.owner not in (None, job.owner) and room.num_left_out < num_left_out:
                tokens = without(job.tokens, room.num_left_out)
                num_other = len(room.tokens) - common_prefix(room.tokens, tokens)
                if num_other <= DEAR_TOKENS < len(room.tokens):
                    room.owner = None

    def _share_prefix(self, room: Room, tokens: list[int]) -> None:
        """Take over the cells of another room that knows more of `tokens`; nothing is read."""
        donor, num_shared = self._rooms.best_donor(room, tokens)
        if donor is None or num_shared <= self._rooms.num_usable(room, tokens):
            return
        self._lookups[room.sequence].cut(common_prefix(room.tokens, tokens))
        self._context.seq_rm(room.sequence)
        self._context.seq_cp(donor.sequence, room.sequence, 0, num_shared)
        room.tokens[:] = donor.tokens[:num_shared]
