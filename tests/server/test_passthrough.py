"""What the proxy does not speed up reaches the target, and comes back, as it is."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from specproxy.admission import with_slot
from specproxy.testing import CannedAnswer, Language, StreamFault
from specproxy.testing.faults import Break
from specproxy.testing.rig import Rig, proxied

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 12}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with proxied(Language()) as running:
        yield running


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_methods_queries_and_binary_bodies(rig: Rig, method: str) -> None:
    path = "/echo/a%2Fb%20c?x=%26&y=a+b&z=&x=2"
    body = bytes(range(256)) * 40 if method != "GET" else b""
    headers = {"Content-Type": "application/x-odd"}
    got = await rig.send(method, f"{path}&status=207", data=body, headers=headers)
    assert (got.status, got.raw) == (207, body)
    (request,) = rig.target.received("/echo/a/b c")
    assert (request.method, request.body) == (method, body)
    assert request.query == path.partition("?")[2] + "&status=207"
    assert request.headers["Content-Type"] == "application/x-odd"


async def test_a_body_of_unknown_length_is_streamed(rig: Rig) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for i in range(50):
            yield bytes([i]) * 5000

    got = await rig.send("POST", "/echo", data=chunks())
    assert got.raw == b"".join(bytes([i]) * 5000 for i in range(50))


async def test_head_has_the_length_and_no_body(rig: Rig) -> None:
    rig.target.faults.match = lambda request: request.method == "HEAD"
    rig.target.faults.answer = CannedAnswer(200, b"12345")
    got = await rig.send("HEAD", "/health")
    assert (got.status, got.raw, got.headers["Content-Length"]) == (200, b"", "5")


@pytest.mark.parametrize("status", [204, 304, 301, 404, 418, 500, 503])
async def test_statuses_and_headers_come_through(rig: Rig, status: int) -> None:
    rig.target.faults.match = lambda request: True
    body = b"" if status in (204, 304) else b"\x00odd"
    headers = {"ETag": '"1"', "Retry-After": "7", "X-Secret": "internal", "Location": "/x"}
    rig.target.faults.answer = CannedAnswer(status, body, "text/odd", headers)
    got = await rig.send("GET", "/v1/whatever")
    assert (got.status, got.raw) == (status, body)
    assert (got.headers["ETag"], got.headers["Retry-After"]) == ('"1"', "7")
    assert "X-Secret" not in got.headers
    assert got.headers["x-specproxy-mode"] == "passthrough"


async def test_compressed_answers_stay_compressed(rig: Rig) -> None:
    rig.target.faults.match = lambda request: True
    body = gzip.compress(b"Hello")
    rig.target.faults.answer = CannedAnswer(200, body, headers={"Content-Encoding": "gzip"})
    got = await rig.send("GET", "/anything")
    assert (got.raw, got.headers["Content-Encoding"]) == (body, "gzip")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chat", {**CHAT, "n": 2}),
        ("chat", {**CHAT, "n": 2, "stream": True}),
        ("chat", {**CHAT, "id_slot": 1}),
        ("chat", {**CHAT, "messages": []}),
        ("chat", {"messages": "x"}),
        ("native", {"prompt": ["Hi", "It"], "n_predict": 4, "temperature": 0}),
        ("native", {"prompt": [[300, 301], [302]], "n_predict": 4, "temperature": 0}),
        ("native", {"prompt": [300, "Hi"], "n_predict": 4, "temperature": 0}),
        ("native", {"prompt": "", "n_predict": 4, "temperature": 0}),
        ("completions", {"prompt": "Hi", "max_tokens": 4, "n": 3, "temperature": 0}),
        ("native", {"n_predict": 4}),
        ("native", []),
    ],
)
async def test_what_is_not_admitted_goes_as_it_came(rig: Rig, kind: str, body: Any) -> None:
    raw = json.dumps(body, indent=3).encode()
    headers = {"Content-Type": "application/json"}
    got = await rig.send("POST", kind, data=raw, headers=headers)
    request = rig.target.requests[-1]
    assert request.body == raw
    assert got.headers["x-specproxy-mode"] == "passthrough"
    assert got == await rig.alone(kind, body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chat", {**CHAT, "logprobs": True, "top_logprobs": 2}),
        ("chat", {**CHAT, "logprobs": True, "stream": True}),
        ("chat", {**CHAT, "messages": [{"role": "user", "content": [IMAGE]}]}),
        ("native", {"prompt": "Hi", "n_predict": 4, "n_probs": 3, "temperature": 0}),
        ("native", {"prompt": "Hi", "n_predict": 4, "response_fields": ["content"]}),
    ],
)
async def test_what_takes_one_slot_gets_one_that_is_not_for_seeds(
    rig: Rig, kind: str, body: Any
) -> None:
    body = {**body, "temperature": 0}
    raw = json.dumps(body, indent=3).encode()
    headers = {"Content-Type": "application/json"}
    got = await rig.send("POST", kind, data=raw, headers=headers)
    request = rig.target.requests[-1]
    assert request.body == with_slot(raw, 0)
    assert got.headers["x-specproxy-mode"] == "passthrough"
    assert got == await rig.alone(kind, body)
    await rig.rest()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{bad",
        b"null",
        b'"text"',
        b"[" * 3000,
        b'{"prompt":"Hi","n_predict":NaN}',
        b'\xef\xbb\xbf{"prompt":"Hi","n_predict":2,"temperature":0}',
        json.dumps({"prompt": "Hi", "n_predict": 2, "stream": True}).encode("utf-16"),
        b'{"prompt":"\xff\xfe","n_predict":2}',
    ],
)
async def test_what_is_no_json_is_the_targets_to_judge(rig: Rig, raw: bytes) -> None:
    await rig.send("POST", "native", data=raw)
    assert rig.target.requests[-1].body == raw


async def test_a_stream_in_passthrough_is_relayed_and_breaks_with_an_error(rig: Rig) -> None:
    body = {**CHAT, "n": 2, "stream": True}
    assert await rig.ask("chat", body) == await rig.alone("chat", body)
    rig.target.faults.stream = StreamFault(Break.RESET, after_events=3)
    got = await rig.ask("chat", body)
    assert not got.whole
    assert got.events[-1]["error"]["source"] == "specproxy"
    assert b"[DONE]" not in got.raw


async def test_a_plain_body_that_breaks_is_no_whole_one(rig: Rig) -> None:
    for kind in (Break.RESET, Break.CUT):
        rig.target.faults.stream = StreamFault(kind)
        got = await rig.ask("chat", {**CHAT, "n": 2})
        assert (got.status, got.whole) == (200, False)


async def test_a_choice_of_fields_may_leave_out_the_end(rig: Rig) -> None:
    events = [{"content": "a"}, {"content": "", "tokens_predicted": 1}]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    rig.target.faults.answer = CannedAnswer(200, body, "text/event-stream")
    asked = {"prompt": "Hi", "stream": True, "response_fields": ["content", "tokens_predicted"]}
    got = await rig.ask("native", asked)
    assert (got.raw, got.whole) == (body, True)
