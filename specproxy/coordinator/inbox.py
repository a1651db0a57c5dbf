"""What the event loop sends to a group's thread."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.coordinator.answer import Answer
from specproxy.core.drafts import GrownNode


@dataclass(frozen=True, slots=True)
class Begin:
    """Generate an answer."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Grow:
    """More nodes for an answer's tree."""

    key: int
    nodes: Sequence[GrownNode]
    go_at: int


@dataclass(frozen=True, slots=True)
class End:
    """Nobody wants the answer any more."""

    key: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the thread; `crash`: by an exception, for fault tests."""

    crash: bool = False


Message = Begin | Grow | End | Stop


class Inbox:
    """A queue that closes: what was put before is still there, nothing slips in after."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._open = True

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<Inbox {state} {self._queue.qsize()} messages>"

    @property
    def is_open(self) -> bool:
        return self._open

    def put(self, message: Message) -> bool:
        """False: nobody reads it any more."""
        with self._gate:
            if self._open:
                self._queue.put(message)
            return self._open

    def take(self, timeout_s: float | None) -> Message | None:
        """The next message; waits for it so long, None: until it comes."""
        try:
            return self._queue.get(block=timeout_s is None or timeout_s > 0, timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> list[Message]:
        """Take no more; what was left."""
        with self._gate:
            self._open = False
        return list(iter(lambda: self.take(0.0), None))
