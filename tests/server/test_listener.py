"""Reading along: when an answer has ended, whatever the connection does then."""

import json
from typing import cast

import pytest

from specproxy.server.listener import Listener
from specproxy.session import Delta, Session
from specproxy.target.deltas import Kind


class Deaf:
    """A session that only counts."""

    num_heard = 0

    def hear(self, delta: Delta) -> None:
        self.num_heard += 1


def event(body: object) -> bytes:
    return b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n"


CHAT_TEXT = event({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]})
CHAT_FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
NATIVE_TEXT = event({"index": 0, "content": "a", "tokens": [7], "stop": False})
NATIVE_FINISH = event({"index": 0, "content": "", "tokens": [], "stop": True})


@pytest.mark.parametrize(
    ("kind", "chunks", "ended"),
    [
        ("chat", [CHAT_TEXT], False),
        ("chat", [CHAT_TEXT, CHAT_FINISH], False),
        ("chat", [CHAT_TEXT, CHAT_FINISH, event(b"[DONE]")], True),
        ("chat", [CHAT_TEXT, event(b"[DONE]")], False),
        ("native", [NATIVE_TEXT], False),
        ("native", [NATIVE_TEXT, NATIVE_FINISH], True),
    ],
)
def test_when_an_answer_has_ended(kind: Kind, chunks: list[bytes], ended: bool) -> None:
    session = Deaf()
    listener = Listener(kind, cast(Session, session))
    for chunk in chunks:
        listener.hear(chunk)
    assert listener.ended is ended
    assert session.num_heard == 1
    assert listener.first_text_s is not None
