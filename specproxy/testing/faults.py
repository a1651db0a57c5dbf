"""What can go wrong with the scripted target, switchable while it runs.

    target.faults.stream = StreamFault(Break.RESET, after_events=3)
    target.faults.answer = CannedAnswer(503, b"busy", headers={"Retry-After": "1"})

Invariant: a fault hits only requests that `match` accepts (generating ones by default), at
most `remaining` of them if that is set. Refused connections are `target.down()`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

GENERATING = frozenset(
    {
        "/completion",
        "/completions",
        "/v1/completions",
        "/chat/completions",
        "/v1/chat/completions",
        "/infill",
        "/responses",
        "/v1/responses",
        "/v1/messages",
    }
)


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came in; `json` is None where the body is none."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    json: Any = None

    @property
    def generates(self) -> bool:
        return self.method == "POST" and self.path in GENERATING

    @property
    def streams(self) -> bool:
        return isinstance(self.json, dict) and self.json.get("stream") is True


class Break(Enum):
    """How a started answer goes wrong."""

    SILENCE = "nothing more comes, the connection stays"
    RESET = "the connection is reset"
    CUT = "the connection is closed before the chunked body has ended"
    CLEAN_END = "the body ends well, the finish event is missing"
    MALFORMED = "one event is broken JSON, the rest follows"


@dataclass(frozen=True)
class StreamFault:
    """`kind` happens before event `after_events` (from 0), at the latest before the finish."""

    kind: Break
    after_events: int = 0


@dataclass(frozen=True)
class CannedAnswer:
    """Served in place of the real answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Faults:
    """The switches.

    Attributes:
        loading: every path answers 503 "Loading model", as while a model loads.
        hang: no headers come, until the client leaves.
        delay_s: so long no headers come.
        answer: a status and body in place of the real answer.
        stream: what breaks within the answer.
        split_bytes: every byte is written on its own.
        pings: an SSE comment before each event.
        num_done: how many `[DONE]` events end an OpenAI stream.
        match: which requests are hit (not `loading`, which hits all).
        remaining: how many more are hit; None: all.
        one_by_one: (bytes, faults): the faults hit one request, the first with these bytes in it.
    """

    loading: bool = False
    hang: bool = False
    delay_s: float = 0.0
    answer: CannedAnswer | None = None
    stream: StreamFault | None = None
    split_bytes: bool = False
    pings: bool = False
    num_done: int = 1
    match: Callable[[ReceivedRequest], bool] = lambda request: request.generates
    remaining: int | None = None
    one_by_one: list[tuple[bytes, "Faults"]] = field(default_factory=list)

    def for_request(self, request: ReceivedRequest) -> "Faults":
        """The faults that hit this request, used up by one; none hit: a clean `Faults()`."""
        for marked in self.one_by_one if request.generates else ():
            if marked[0] in request.body:
                self.one_by_one.remove(marked)
                return marked[1]
        if not self.active or not self.match(request) or self.remaining == 0:
            return Faults(loading=self.loading)
        if self.remaining is not None:
            self.remaining -= 1
        return self

    @property
    def active(self) -> bool:
        changed = self.split_bytes or self.pings or self.num_done != 1
        return (
            changed
            or self.hang
            or self.delay_s > 0
            or self.answer is not None
            or self.stream is not None
        )

    def clear(self) -> None:
        """Back to health."""
        for name, value in vars(Faults()).items():
            setattr(self, name, value)
