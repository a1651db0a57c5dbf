"""Server-sent events: bytes in, whole events out.

Invariant: the events depend on the bytes alone, never on how they were cut into chunks; each
byte is looked at a constant number of times. Follows the WHATWG event stream format (LF, CRLF
and CR end a line), except that events without data are dropped and `id`/`retry` are not kept.
"""

import re
from dataclasses import dataclass

from specproxy.errors import TargetBroken

MAX_EVENT_BYTES = 64 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        name: the `event:` field; `message` where the stream gave none.
        data: the `data:` lines, joined with a line feed; never empty.
    """

    name: str
    data: str


class SSEParser:
    """Incremental parser of one stream. After an error it must not be fed again."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.num_comments = 0
        self._max_event_bytes = max_event_bytes
        self._tail: list[bytes] = []  # pieces of the line that has not ended yet
        self._tail_bytes = 0
        self._skip_line_feed = False  # the last chunk ended with CR: a LF now belongs to it
        self._at_start = True
        self._name = ""
        self._data: list[bytes] = []
        self._event_bytes = 0

    def __repr__(self) -> str:
        return (
            f"<SSEParser pending={self._event_bytes + self._tail_bytes}B"
            f" comments={self.num_comments}>"
        )

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes.

        Raises:
            TargetBroken: an event is larger than `max_event_bytes`.
        """
        if not chunk:
            return []
        if self._skip_line_feed and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skip_line_feed = chunk.endswith(b"\r")
        first, *rest = _LINE_END.split(chunk)
        events: list[Event] = []
        if rest:
            self._end_line(b"".join((*self._tail, first)), events)
            for line in rest[:-1]:
                self._end_line(line, events)
            self._tail, self._tail_bytes = [], 0
        remainder = rest[-1] if rest else first
        if remainder:
            self._tail.append(remainder)
            self._tail_bytes += len(remainder)
            self._check_size(self._tail_bytes)
        return events

    def finish(self) -> bool:
        """Whether the stream ended inside an event (which is then lost)."""
        return bool(self._tail or self._data or self._name)

    def _end_line(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        if not line:
            self._end_event(events)
            return
        self._check_size(len(line))
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not field:
            self.num_comments += 1
        elif field == b"data":
            self._data.append(value)
            self._event_bytes += len(line)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")

    def _end_event(self, events: list[Event]) -> None:
        data = b"\n".join(self._data).decode("utf-8", "replace")
        if data:
            events.append(Event(self._name or "message", data))
        self._name, self._data, self._event_bytes = "", [], 0

    def _check_size(self, more_bytes: int) -> None:
        if self._event_bytes + more_bytes > self._max_event_bytes:
            raise TargetBroken(
                f"The target sent an event of more than {self._max_event_bytes} bytes.",
                remedy="Check that target.url points at a llama-server and not at another service.",
            )
