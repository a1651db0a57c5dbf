"""Reading along with an answer's stream: for the session, the assembler and the account."""

import re
import time
from collections.abc import AsyncIterator, Callable

import aiohttp

from specproxy.errors import TargetBroken
from specproxy.session import Session
from specproxy.target.assemble import Assembler, event_json
from specproxy.target.client import TargetClient
from specproxy.target.deltas import ENDS_WITH_DONE, Json, Kind, deltas
from specproxy.target.sse import SSEParser

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END = 4
_DONE = re.compile(rb"^data: ?\[DONE\](?:\r\n\r\n|\n\n|\r\r)", re.MULTILINE)


class Listener:
    """Hears one stream.

    Args:
        session, assembler: hear it, too.
        num_choices: how many choices have to end.
        check: raises for an event that must not reach the client.

    Attributes:
        finished: the target said of all choices why their generation ended.
        failed: it said so with an error.
        done: the stream's `[DONE]` came.
        timings: the target's own counts, as it sent them last.
        first_text_s: from the start to the first text, seconds; None before it.
    """

    def __init__(
        self,
        kind: Kind,
        session: Session | None = None,
        assembler: Assembler | None = None,
        *,
        num_choices: int = 1,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        self.kind = kind
        self.failed = False
        self.done = False
        self.timings: Json = {}
        self.first_text_s: float | None = None
        self._session = session
        self._assembler = assembler
        self._num_choices = num_choices
        self._check = check
        self._finished: set[int] = set()
        self._parser = SSEParser()
        self._started = time.monotonic()

    @property
    def finished(self) -> bool:
        return self.failed or len(self._finished) >= self._num_choices

    @property
    def complete(self) -> bool:
        """Whether the stream may end here."""
        return self.finished or (self.done and bool(self._finished))

    @property
    def ended(self) -> bool:
        """Nothing more is due, even if the target keeps the connection open."""
        return self.complete and (self.done or self.kind not in ENDS_WITH_DONE)

    async def read(
        self, client: TargetClient, upstream: aiohttp.ClientResponse, *, tick_s: float | None = None
    ) -> AsyncIterator[bytes]:
        """The stream's bytes, heard and as whole events, until the answer has ended.

        Args:
            tick_s: yield no bytes after so much silence.

        Raises:
            TargetBroken: it ended otherwise; what had come of the last event is not yielded.
            TargetErrorReply, NotAssembled: what the assembler says of an event.
        """
        held: list[bytes] = []
        async for chunk in client.chunks(upstream, tick_s=tick_s):
            if not chunk:
                yield b""
                continue
            self.hear(chunk)
            end = _last_end(held[-1][-_LONGEST_END:] if held else b"", chunk)
            if end is None:
                held.append(chunk)
            else:
                events = b"".join((*held, chunk[:end]))
                held = [chunk[end:]] if end < len(chunk) else []
                yield self._until_done(events) if self.done else events
            if self.ended:
                return
            if self.done and not self.complete:
                break
        if not self.complete:
            raise TargetBroken(
                f"The target {client.name} ended its answer before it was complete.",
                remedy="Look into llama-server's log; an RPC worker may have died.",
            )
        if held:
            yield b"".join(held)

    def hear(self, chunk: bytes) -> None:
        """Take the stream's next bytes.

        Raises:
            TargetBroken: an event is not llama-server's.
            TargetErrorReply, NotAssembled: what the assembler says of an event.
        """
        for event in self._parser.feed(chunk):
            if _says_nothing(event.data):
                continue
            body = event_json(event.data)
            if body is None:
                self.done = True
                continue
            if self._check is not None:
                self._check(body)
            if self._assembler is not None:
                self._assembler.add(body)
            delta = deltas(self.kind, body)
            if self.first_text_s is None and (delta.text or delta.opaque):
                self.first_text_s = time.monotonic() - self._started
            self.timings = delta.timings or self.timings
            self.failed = self.failed or "error" in body
            if delta.finished and self.kind == "responses":  # whose choices have no index
                self._finished.add(len(self._finished))
            elif delta.finished:
                self._finished.add(delta.index)
            elif self._session is not None:
                self._session.hear(delta)

    def _until_done(self, events: bytes) -> bytes:
        """Events up to the first `[DONE]`: a second one is one too many. The first is, too, where
        no finish came before it: clients take it for a good end."""
        done = _DONE.search(events)
        if done is None:
            return events
        return events[: done.end() if self.complete else done.start()]


def _says_nothing(data: str) -> bool:
    """A comment that something on the way put a label on, or the `null` that llama-server sends
    when another choice of a stream begins."""
    return data.startswith(":") or data == "null"


def _last_end(before: bytes, chunk: bytes) -> int | None:
    """Where in `chunk` the last whole event ends; None if none does.

    Args:
        before: the bytes before it, as many as an event's end may have.
    """
    text = before + chunk
    end = max(text.rfind(mark) + len(mark) if mark in text else -1 for mark in _ENDS)
    return end - len(before) if end > len(before) else None
