"""Where answers live in the KV cache: places, prefix reuse, room made when cells run out.

Invariant: between passes the cells of a place's sequence id are exactly its tokens, and a branch
shares a beginning of them; this object alone changes the native cache, but for decoding itself.
"""

from collections.abc import Iterator

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.branches import Branches
from specproxy.core.rooms import Room, Rooms
from specproxy.llama.context import Context


class Places:
    """The sequence ids of a context: places 0..n-1, then branches."""

    def __init__(self, context: Context, num_places: int, num_branches: int) -> None:
        self._context = context
        self._rooms = Rooms(num_places, can_cut=context.can_cut)
        self.branches = Branches(context, range(num_places, num_places + num_branches))

    def __repr__(self) -> str:
        return f"<Places {self._rooms!r} {self.branches!r}>"

    def enter(self, answer: Answer) -> bool:
        """Give `answer` a place with as much of its prompt as is cached anywhere; False: all are
        taken."""
        prompt = answer.tree.tokens
        room = self._rooms.acquire(answer.key, prompt)
        if room is None:
            return False
        answer.place = room
        if answer.request.cache_prompt:
            self._share_prefix(room, prompt)
        # The last token is evaluated even if it is cached: its logits are wanted.
        num_usable = min(self._rooms.num_usable(room, prompt), len(prompt) - 1)
        self._cut(room, num_usable if answer.request.cache_prompt else 0)
        answer.num_cached = len(room.tokens)
        return True

    def leave(self, answer: Answer) -> None:
        """`answer` is over; its tokens stay for whoever can use them."""
        if answer.place is not None:
            self.branches.release(answer.place)
            self._rooms.release(answer.place)
            self._rooms.vacate(answer.key)
            answer.place = None

    def read(self, answer: Answer, num_tokens: int) -> None:
        """After a pass: that many pending tokens of `answer` are in its place."""
        room = answer.room
        start = len(room.tokens)
        room.tokens += answer.tree.tokens[start : start + num_tokens]

    def keep(self, answer: Answer, sequence: int, num_common: int, num_kept: int) -> None:
        """After a pass with drafted nodes and `read`: keep `num_kept` positions of a path.

        Args:
            sequence: holds the path that was accepted; the place's own, or a branch.
            num_common: positions that this path has in common with the place's own.
        """
        room = answer.room
        self._context.seq_rm(room.sequence, min(num_common, num_kept))
        if sequence != room.sequence and num_common < num_kept:
            self._context.seq_cp(sequence, room.sequence, num_common, num_kept)
        self.read(answer, num_kept - len(room.tokens))

    def evict(self) -> bool:
        """Empty a place that no answer has, to make room for others; False: there is none."""
        room = self._rooms.evictable()
        if room is None:
            return False
        self._cut(room, 0)
        return True

    def __iter__(self) -> Iterator[Room]:
        """All places, in the order of their sequence ids."""
        return iter(self._rooms)

    def _share_prefix(self, room: Room, tokens: list[int]) -> None:
        """Take over the cells of another place that knows more of `tokens`; nothing is read."""
        donor, num_shared = self._rooms.best_donor(room, tokens)
        if donor is not None and num_shared > self._rooms.num_usable(room, tokens):
            self._cut(room, 0)
            self._context.seq_cp(donor.sequence, room.sequence, 0, num_shared)
            room.tokens[:] = donor.tokens[:num_shared]

    def _cut(self, room: Room, num_kept: int) -> None:
        """Cut a place down to `num_kept` tokens; to none where the cache cannot forget a part."""
        if num_kept < len(room.tokens):
            if not self._context.seq_rm(room.sequence, num_kept):
                self._context.seq_rm(room.sequence)
                num_kept = 0
            del room.tokens[num_kept:]
