"""Reading along with an answer's stream: for the session, the assembler and the account."""

import time

from specproxy.session import Session
from specproxy.target.assemble import Assembler, Json, Kind, deltas, event_json
from specproxy.target.sse import SSEParser


class Listener:
    """Hears the raw chunks of one stream.

    Attributes:
        finished: the target said why the generation ended.
        failed: it said so with an error.
        done: the stream's `[DONE]` came.
        timings: the target's own counts, as it sent them last.
        first_text_s: from the start to the first text, seconds; None before it.
    """

    def __init__(self, kind: Kind, session: Session, assembler: Assembler | None = None) -> None:
        self.finished = False
        self.failed = False
        self.done = False
        self.timings: Json = {}
        self.first_text_s: float | None = None
        self._kind = kind
        self._session = session
        self._assembler = assembler
        self._parser = SSEParser()
        self._started = time.monotonic()

    @property
    def ended(self) -> bool:
        """Nothing more is due, even if the target keeps the connection open."""
        return self.finished and (self.done or self._kind == "native")

    def hear(self, chunk: bytes) -> None:
        """Take the stream's next bytes.

        Raises:
            TargetBroken: an event is not llama-server's.
            TargetErrorReply, NotAssembled: what the assembler says of an event.
        """
        for event in self._parser.feed(chunk):
            body = event_json(event.data)
            if body is None:
                self.done = True
                continue
            if self._assembler is not None:
                self._assembler.add(body)
            delta = deltas(self._kind, body)
            if self.first_text_s is None and (delta.text or delta.opaque):
                self.first_text_s = time.monotonic() - self._started
            self.timings = delta.timings or self.timings
            self.finished = self.finished or delta.finished
            self.failed = self.failed or "error" in body
            if not delta.finished:
                self._session.hear(delta)
