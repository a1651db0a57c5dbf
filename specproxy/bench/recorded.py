"""A recorded draft: what a real one said after a context, replayed at a set time per token.

On a machine where draft, workers and server share two cores, the draft slows the passes that it
should run beside. With a draft on a machine of its own it would not: that is what a recorded draft
shows. It says token for token what the real one says, and takes no core.

Invariant: whatever it says, the real draft has said of exactly this context. Where the recording
has a hole the real draft is asked, on its own time; such tokens are counted, and known from then
on.
"""

import asyncio
import hashlib
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from specproxy.core.drafted import DraftToken
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.protocol import Drafter, DraftSequence, OnToken

Key = bytes


class Context:
    """A sequence of tokens that grows, and its key."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._hash = hashlib.blake2b(array("q", tokens).tobytes(), digest_size=16)

    def add(self, token: int) -> None:
        self._hash.update(array("q", (token,)).tobytes())

    @property
    def key(self) -> Key:
        return self._hash.digest()


class Recording:
    """What the real draft says next, by context."""

    def __init__(self) -> None:
        self._next: dict[Key, DraftToken] = {}

    def __len__(self) -> int:
        return len(self._next)

    def __repr__(self) -> str:
        return f"<Recording of {len(self)} contexts>"

    def learn(self, tokens: Sequence[int], drafted: Sequence[DraftToken]) -> None:
        """After `tokens` the real draft said `drafted`, one after the other."""
        context = Context(tokens)
        for one in drafted:
            self._next[context.key] = one
            context.add(one.token)

    def after(self, context: Context) -> DraftToken | None:
        """None: a hole."""
        return self._next.get(context.key)

    def line(self, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        """What follows `tokens`, up to a hole, `num_tokens` at most."""
        context = Context(tokens)
        found: list[DraftToken] = []
        while len(found) < num_tokens and (one := self.after(context)) is not None:
            found.append(one)
            context.add(one.token)
        return found


@cache
def recording_of(model: Path) -> Recording:
    """The process's one recording of a draft model: what one run has recorded serves the next."""
    return Recording()


class RecordedDrafter:
    """Implements `Drafter`. Closes nothing: the real drafter belongs to whoever made it.

    Args:
        real: what it repeats; also fills the holes.
        recording: to be filled before it counts; several drafters of one model may share it.
        token_s: time per drafted token, of each sequence by itself. Reading a context takes none.

    Attributes:
        num_recorded: tokens that came from the recording.
        num_holes: tokens that the real draft had to be asked for.
    """

    def __init__(self, real: Drafter, recording: Recording, token_s: float) -> None:
        self.real = real
        self.recording = recording
        self.token_s = token_s
        self.num_recorded = self.num_holes = 0

    def __repr__(self) -> str:
        return f"<RecordedDrafter {self.recording!r} holes={self.num_holes} of {self.real!r}>"

    @property
    def vocabulary(self) -> Vocabulary:
        return self.real.vocabulary

    @property
    def alive(self) -> bool:
        return self.real.alive

    @property
    def can_branch(self) -> bool:
        return self.real.can_branch

    def open(self, num_tokens: int | None = None) -> "RecordedSequence":
        return RecordedSequence(self, self.real.open(num_tokens))

    async def aclose(self) -> None:
        """Nothing to give back."""


class RecordedSequence:
    """Implements `DraftSequence`."""

    def __init__(self, drafter: RecordedDrafter, real: DraftSequence) -> None:
        self._drafter = drafter
        self._real = real
        self._cut: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<RecordedSequence of {self._real!r}>"

    async def draft(
        self, tokens: Sequence[int], num_tokens: int, *, on_token: OnToken | None = None
    ) -> list[DraftToken]:
        if self._cut is not None:
            raise RuntimeError(f"draft on {self!r}")
        drafted: list[DraftToken] = []

        def take(token: DraftToken) -> None:
            drafted.append(token)
            if on_token is not None:
                on_token(token)

        self._cut = asyncio.Event()
        try:
            if not await self._replay(tokens, num_tokens, take, self._cut):
                known = [*tokens, *(one.token for one in drafted)]
                await self._ask(known, num_tokens - len(drafted), take)
        finally:
            self._cut = None
        return drafted

    def cut(self) -> None:
        if self._cut is not None:
            self._cut.set()
            self._real.cut()

    def close(self) -> None:
        self.cut()
        self._real.close()

    async def _replay(
        self, tokens: Sequence[int], num_tokens: int, take: OnToken, cut: asyncio.Event
    ) -> bool:
        """Say what is recorded; False: that ends before the draft does."""
        drafter = self._drafter
        due_s = asyncio.get_running_loop().time()
        context = Context(tokens)
        for _ in range(num_tokens):
            token = drafter.recording.after(context)
            if token is None:
                return False
            due_s += drafter.token_s
            if await _is_set_by(due_s, cut):
                break
            drafter.num_recorded += 1
            take(token)
            context.add(token.token)
            if cut.is_set() or drafter.vocabulary.is_end(token.token):
                break
        return True

    async def _ask(self, tokens: Sequence[int], num_tokens: int, take: OnToken) -> None:
        """Have the real draft fill a hole."""
        came = await self._real.draft(tokens, num_tokens, on_token=take)
        self._drafter.recording.learn(tokens, came)
        self._drafter.num_holes += len(came)


async def _is_set_by(due_s: float, event: asyncio.Event) -> bool:
    """Wait until `due_s` of the loop's clock, or for the event if that comes first."""
    try:
        async with asyncio.timeout_at(due_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
