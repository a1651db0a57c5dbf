"""Answers on their way: pings while nothing comes, clients that do not read, late errors."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from specproxy.core.tasks import spawn
from specproxy.testing import Break, CannedAnswer, Language, StreamFault, until
from specproxy.testing.differential import differs
from specproxy.testing.rig import PATHS, Rig, proxied

LANGUAGE = Language(mean_length=0)
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "temperature": 0}
STREAM = {**CHAT, "stream": True}
TWO = {**STREAM, "n": 2}
"""A stream that is passed through."""
QUICK_PINGS = {"listen": {"ping_s": 0.03}}
WRITE_S = 0.3
NUM_TEXTS = 4_000
TEXT = {"choices": [{"index": 0, "delta": {"x_odd": "x" * 4000}, "finish_reason": None}]}
LONG_STREAM = b"".join([b"data: " + json.dumps(TEXT).encode() + b"\n\n"] * NUM_TEXTS)


def num_pings(raw: bytes) -> int:
    return raw.count(b":\n\n") - raw.count(b"\n:\n\n\n")


# -- pings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_pings_by_the_clock_while_the_target_reads_the_prompt(body: dict[str, Any]) -> None:
    async with proxied(LANGUAGE, settings=QUICK_PINGS) as rig:
        right = await rig.alone("chat", body)
        rig.target.clock.hold()
        async with rig.client.post(rig.server.url + PATHS["chat"], json=body) as response:
            assert response.status == 200
            assert await response.content.readexactly(9) == b":\n\n" * 3
            rig.target.clock.go()
            raw = await response.read()
        assert raw.replace(b":\n\n", b"").startswith(b"data: ")
        assert differs(await rig.ask("chat", body), right) is None
        await rig.rest()


async def test_pings_while_no_head_comes_and_while_all_slots_are_taken() -> None:
    async with proxied(LANGUAGE, num_slots=2, settings=QUICK_PINGS) as rig:
        rig.target.faults.hang = True
        rig.target.faults.remaining = 1
        url = rig.server.url + PATHS["chat"]
        async with rig.client.post(url, json=STREAM) as first:
            assert first.headers["Content-Type"].startswith("text/event-stream")
            assert first.headers["X-Accel-Buffering"] == "no"
            assert await first.content.readexactly(6) == b":\n\n" * 2
            async with rig.client.post(url, json=STREAM) as second:
                assert await second.content.readexactly(6) == b":\n\n" * 2
                assert rig.server.route.num_waiting == 1
                first.close()
                rest = await second.read()
        assert rest.endswith(b"data: [DONE]\n\n")
        await rig.rest()


async def test_no_pings_where_they_are_off_and_none_in_a_plain_answer() -> None:
    async with proxied(LANGUAGE, pass_ms=20, settings={"listen": {"ping_s": None}}) as rig:
        assert num_pings((await rig.ask("chat", STREAM)).raw) == 0
    async with proxied(LANGUAGE, pass_ms=20, settings={"listen": {"ping_s": 0.01}}) as rig:
        assert (await rig.ask("chat", CHAT)).json["object"] == "chat.completion"
        assert (await rig.ask("chat", {**CHAT, "n": 2})).json["object"] == "chat.completion"


async def test_no_ping_within_an_event() -> None:
    """A stream that nobody follows is relayed as it comes, cut or not."""
    settings = {**QUICK_PINGS, "target": {"idle_s": 0.15}}
    async with proxied(LANGUAGE, settings=settings) as rig:
        rig.target.faults.match = lambda request: True
        rig.target.faults.answer = CannedAnswer(
            200, b"data: {}\n\ndata: half of it, and much more", "text/event-stream"
        )
        rig.target.faults.stream = StreamFault(Break.SILENCE)
        got = await rig.send("POST", "/x/stream")
        assert got.raw.startswith(b"data: {}\n")
        assert b":\n\n" not in got.raw
        assert b'"source": "specproxy"' in got.raw


async def test_a_feed_may_be_silent_for_as_long_as_it_likes() -> None:
    settings = {**QUICK_PINGS, "target": {"idle_s": 0.05}}
    async with proxied(LANGUAGE, settings=settings) as rig:
        rig.target.faults.match = lambda request: request.path == "/models/sse"
        rig.target.faults.answer = CannedAnswer(200, b"data: {}\n\n" * 2, "text/event-stream")
        rig.target.faults.stream = StreamFault(Break.SILENCE)
        async with rig.client.get(rig.server.url + "/models/sse") as response:
            assert await response.content.readexactly(10) == b"data: {}\n\n"
            assert await response.content.readexactly(30) == b":\n\n" * 10


@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_an_error_after_pings_is_told_within_the_stream(body: dict[str, Any]) -> None:
    refusal = {"error": {"code": 429, "message": "later", "type": "rate_limit_error"}}
    async with proxied(LANGUAGE, settings=QUICK_PINGS) as rig:
        rig.target.faults.delay_s = 0.08
        for answer, message in (
            (CannedAnswer(429, json.dumps(refusal).encode()), "later"),
            (CannedAnswer(502, b"<html>Bad gateway</html>", "text/html"), "answered with 502"),
        ):
            rig.target.faults.answer = answer
            got = await rig.ask("chat", body)
            assert (got.status, got.whole) == (200, False)
            assert got.raw.startswith(b":\n\n")
            assert message in got.events[-1]["error"]["message"]
            assert got.events[-1]["error"]["code"] == answer.status
        rig.target.faults.clear()
        rig.target.faults.hang = True
        asked = spawn(rig.ask("chat", body), name="ask")
        await until(lambda: len(rig.target.received(PATHS["chat"])) >= 3)
        await asyncio.sleep(0.08)
        await rig.target.down()
        got = await asked
        assert (got.status, got.whole) == (200, False)
        assert "gave no answer" in got.events[-1]["error"]["message"]


@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_an_error_before_the_first_ping_keeps_its_status(body: dict[str, Any]) -> None:
    async with proxied(LANGUAGE) as rig:
        for status, raw, kind in (
            (400, b'{"error":{"message":"no"}}', "application/json"),
            (401, b'{"error":{"message":"no"}}', "application/json"),
            (413, b'{"error":{"message":"no"}}', "application/json"),
            (429, b'{"error":{"message":"no"}}', "application/json"),
        ):
            headers = {"Retry-After": "9"}
            rig.target.faults.answer = CannedAnswer(status, raw, kind, headers)
            got = await rig.ask("chat", body)
            assert (got.status, got.raw, got.content_type) == (status, raw, kind)
            assert (got.headers["Retry-After"], got.whole) == ("9", True)
        await rig.rest()


# -- clients that do not read -------------------------------------------------------------------


@asynccontextmanager
async def stuck_client(rig: Rig, body: dict[str, Any]) -> AsyncIterator[socket.socket]:
    """Sends a request and reads nothing."""
    host, port = rig.server.url.removeprefix("http://").split(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (host, int(port)))
        raw = json.dumps(body).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
        await loop.sock_sendall(client, head.encode() + raw)
        yield client


async def read_all(client: socket.socket) -> bytes:
    got = b""
    while chunk := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
        got += chunk
    return got


@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_a_client_that_stops_reading_loses_its_slot_and_hurts_nobody(
    body: dict[str, Any],
) -> None:
    settings = {"listen": {"write_s": WRITE_S}}
    async with proxied(LANGUAGE, num_slots=2, settings=settings) as rig:
        rig.target.faults.answer = CannedAnswer(200, LONG_STREAM, "text/event-stream")
        rig.target.faults.remaining = 1
        async with stuck_client(rig, body) as client:
            await rig.target.wait_for(PATHS["chat"])
            await until(lambda: len(rig.server._runner.server.connections) == 1)  # type: ignore[union-attr]
            got = await rig.ask("chat", STREAM)  # the only slot for answers
            assert got == await rig.alone("chat", STREAM)
            await rig.rest()
            await asyncio.sleep(2 * WRITE_S)
            with pytest.raises(ConnectionResetError):
                await read_all(client)


async def test_what_a_client_does_not_read_is_bounded() -> None:
    """The target is not read further than one buffer ahead of the client."""
    async with proxied(LANGUAGE, settings={"listen": {"write_s": 5.0}}) as rig:
        rig.target.faults.answer = CannedAnswer(200, LONG_STREAM, "text/event-stream")
        async with stuck_client(rig, STREAM):
            await rig.target.wait_for(PATHS["chat"])
            server = rig.server._runner.server
            assert server is not None

            def buffered() -> int:
                (one,) = server.connections
                assert isinstance(one.transport, asyncio.WriteTransport)
                return one.transport.get_write_buffer_size()

            await until(buffered)
            await asyncio.sleep(0.1)
            assert buffered() < 1 << 18
        rig.target.faults.clear()
        await rig.rest()


async def test_a_slow_reader_gets_everything() -> None:
    async with proxied(LANGUAGE, settings={"listen": {"write_s": 5.0}}) as rig:
        body = LONG_STREAM[: len(LONG_STREAM) // 8]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        body = body[: body.rindex(b"\n\n") + 2]
        body += b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n"
        rig.target.faults.answer = CannedAnswer(200, body, "text/event-stream")
        async with stuck_client(rig, STREAM) as client:
            loop, got = asyncio.get_running_loop(), b""
            while not got.endswith(b"0\r\n\r\n"):
                got += await loop.sock_recv(client, 50_000)
                await asyncio.sleep(0)
        assert got.count(b"data: ") == body.count(b"data: ")


async def test_a_slow_reader_gets_a_whole_answer_that_is_checked_first() -> None:
    settings = {"listen": {"write_s": WRITE_S}}
    async with proxied(LANGUAGE, settings=settings) as rig:
        body = json.dumps({"choices": [], "x_odd": "x" * (16 << 20)}).encode()
        rig.target.faults.answer = CannedAnswer(200, body)
        async with stuck_client(rig, {**CHAT, "logprobs": True}) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            loop, got, began_s = asyncio.get_running_loop(), bytearray(), time.monotonic()
            while not got.endswith(body[-40:]):
                piece = await loop.sock_recv(client, 200_000)
                assert piece, "cut"
                got += piece
                await asyncio.sleep(0.01)
            assert time.monotonic() - began_s > WRITE_S
        assert got.endswith(b"\r\n\r\n" + body)


# -- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*PATHS])
@pytest.mark.parametrize("fault", Break)
async def test_a_stream_passed_through_that_breaks_has_no_clean_end(
    kind: str, fault: Break
) -> None:
    async with proxied(LANGUAGE, has_draft=False, settings={"target": {"idle_s": 0.05}}) as rig:
        body: dict[str, Any] = {"stream": True, "temperature": 0, "max_tokens": 12}
        body |= {
            "prompt": "Hi",
            "input": "Hi",
            "max_output_tokens": 12,
            "messages": CHAT["messages"],
        }
        right = await rig.alone(kind, body)
        assert await rig.ask(kind, body) == right
        for after_events in (2, 100):
            rig.target.faults.stream = StreamFault(fault, after_events)
            got = await rig.ask(kind, body)
            assert (got.status, got.whole) == (200, False)
            *begun, error = got.content
            assert error["error"]["source"] == "specproxy"
            assert begun == right.content[: len(begun)]
            assert b"[DONE]" not in got.raw
            named = b"event: error\n" in got.raw
            assert named == (kind in ("messages", "responses"))


async def test_what_came_of_a_cut_event_is_not_relayed() -> None:
    text = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    body = text + b'data: {"ch'
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.answer = CannedAnswer(200, body, "text/event-stream")
        for asked in (STREAM, TWO):
            got = await rig.ask("chat", asked)
            assert not got.whole
            first, error = got.events
            assert first["choices"][0]["delta"]["content"] == "a"
            assert error["error"]["source"] == "specproxy"


@pytest.mark.parametrize("num_done", [0, 1, 2])
@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_exactly_one_done(body: dict[str, Any], num_done: int) -> None:
    async with proxied(LANGUAGE) as rig:
        right = await rig.alone("chat", STREAM)
        rig.target.faults.num_done = num_done
        got = await rig.ask("chat", body)
        assert got.whole
        assert got.raw.endswith(b"\n\ndata: [DONE]\n\n")
        assert got.raw.count(b"[DONE]") == 1
        if body is STREAM:
            assert got == right


@pytest.mark.parametrize("body", [STREAM, TWO], ids=["seeding", "passthrough"])
async def test_done_without_a_finish_is_no_end(body: dict[str, Any]) -> None:
    text = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    async with proxied(LANGUAGE) as rig:
        canned = CannedAnswer(200, text + b"data: [DONE]\n\n", "text/event-stream")
        rig.target.faults.answer = canned
        got = await rig.ask("chat", body)
        assert not got.whole
        assert got.raw.startswith(text)
        assert b"[DONE]" not in got.raw
        assert got.events[-1]["error"]["source"] == "specproxy"
        assert (await rig.ask("chat", CHAT)).status == 502
        await rig.rest()


async def test_empty_data_and_relabelled_comments_are_no_events() -> None:
    text = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":%s}]}\n\n'
    odd = b":\n\n: x\n\ndata:\n\ndata: : x\n\n"
    body = odd + text % b"null" + odd + text % b'"stop"' + b"data:[DONE]\n\n"
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.answer = CannedAnswer(200, body, "text/event-stream")
        for asked in (STREAM, TWO | {"n": 1, "id_slot": 0}):
            got = await rig.ask("chat", asked)
            assert (got.raw, got.whole) == (body, True)
