"""What the event loop and the draft's worker thread send each other.

Invariant: a job belongs to the worker from the moment it is sent; the loop only awaits its future,
which is resolved on the loop's own thread.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from specproxy.core.drafted import DraftToken
from specproxy.core.rooms import Room
from specproxy.draft.protocol import OnToken


@dataclass(eq=False, slots=True)
class Job:
    """One `draft` call.

    Attributes:
        owner: key of its sequence.
        num_choices: only ids below that are drafted.
        pending: tokens to evaluate next; the logits of the last one give the next draft token.
        drafted: what there is so far.
        room: where it works; None while it waits for one.
    """

    owner: int
    tokens: list[int]
    num_tokens: int
    num_choices: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[DraftToken]]
    on_token: OnToken | None = None
    pending: list[int] = field(default_factory=list)
    drafted: list[DraftToken] = field(default_factory=list)
    room: Room | None = None

    def emit(self, token: DraftToken) -> None:
        """Add a drafted token, and tell the caller if it wants to hear of each."""
        self.drafted.append(token)
        if self.on_token is not None:
            self._call(self._tell, token)

    def finish(self) -> None:
        """Hand over what there is."""
        self._call(self._resolve, list(self.drafted))

    def fail(self, error: Exception) -> None:
        self._call(self._reject, error)

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(callback, *arguments)

    def _tell(self, token: DraftToken) -> None:
        if self.on_token is not None and not self.future.done():
            self.on_token(token)

    def _resolve(self, drafted: list[DraftToken]) -> None:
        if not self.future.done():
            self.future.set_result(drafted)

    def _reject(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a job."""

    job: Job


@dataclass(frozen=True, slots=True)
class Cut:
    """End the sequence's job, if any, with what it has."""

    owner: int


@dataclass(frozen=True, slots=True)
class Close:
    """The sequence is gone; its job, if any, ends."""

    owner: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the thread; `crash`: by an exception, for fault tests."""

    crash: bool = False


Message = Start | Cut | Close | Stop
