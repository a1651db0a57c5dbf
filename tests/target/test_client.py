"""The target's client: what comes of it are answers, or errors of ours."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from specproxy.core.tasks import spawn
from specproxy.errors import TargetBroken, TargetError, TargetUnreachable
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing import Break, CannedAnswer, ScriptedTarget, StreamFault, until

BODY = b'{"prompt":"Hi","temperature":0,"n_predict":6,"stream":true}'
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget() as running:
        yield running


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=url, **settings)) as client:
        yield client


async def read(client: TargetClient, path: str = "/completion", data: bytes | None = BODY) -> bytes:
    method = "GET" if data is None else "POST"
    async with client.request(method, path, data=data) as response:
        return b"".join([chunk async for chunk in client.chunks(response)])


@asynccontextmanager
async def raw_server(handle: Handler) -> AsyncIterator[str]:
    """A server that answers every connection with whatever `handle` writes."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_json_and_its_errors(target: ScriptedTarget) -> None:
    async with connected(target.url) as client:
        assert await client.json("GET", "/health") == {"status": "ok"}
        tokens = (await client.json("POST", "/tokenize", {"content": "a"}))["tokens"]
        assert len(tokens) == 1
        with pytest.raises(TargetError, match="404"):
            await client.json("GET", "/nope")
        target.faults.match = lambda request: True
        target.faults.answer = CannedAnswer(200, b"<html>")
        with pytest.raises(TargetError, match="no valid JSON"):
            await client.json("GET", "/health")


async def test_greetings_tell_how_far_away_it_is(target: ScriptedTarget) -> None:
    async with connected(target.url) as client:
        assert client.travel_s == 0.0
        await client.greet()
        assert client.travel_s > 0.0
        target.faults.loading = True
        with pytest.raises(TargetError):
            await client.greet()
        assert client.travel_s == 0.0  # nobody knows where it comes back


async def test_no_target() -> None:
    async with ScriptedTarget() as target:
        url = target.url
    async with connected(url) as client:
        with pytest.raises(TargetUnreachable, match="llama-server running") as caught:
            await client.json("GET", "/health")
        assert client.name in str(caught.value)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_no_http_is_no_answer(answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with raw_server(handle) as url, connected(url) as client:
        with pytest.raises(TargetUnreachable):
            await read(client)


async def test_no_answer_in_time(target: ScriptedTarget) -> None:
    target.faults.hang = True
    async with connected(target.url, first_byte_s=0.05) as client:
        with pytest.raises(TargetUnreachable, match="first_byte_s"):
            await read(client)


@pytest.mark.parametrize("kind", [Break.RESET, Break.CUT])
async def test_an_answer_that_breaks_off(target: ScriptedTarget, kind: Break) -> None:
    target.faults.stream = StreamFault(kind, after_events=2)
    async with connected(target.url) as client:
        with pytest.raises(TargetBroken, match=r"llama-server's log"):
            await read(client)


async def test_an_answer_that_falls_silent(target: ScriptedTarget) -> None:
    target.faults.stream = StreamFault(Break.SILENCE, after_events=2)
    async with connected(target.url, idle_s=0.05) as client:
        with pytest.raises(TargetBroken, match="idle_s"):
            await read(client)


async def test_the_limit_of_the_first_byte_ends_with_it() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD % 4 + b"ab")
        await asyncio.sleep(0.4)
        writer.write(b"cd")
        await reader.read()  # another request, which gets no answer

    async with raw_server(handle) as url, connected(url, first_byte_s=0.1, idle_s=9.0) as client:
        assert await read(client, data=None) == b"abcd"
        with pytest.raises(TargetUnreachable, match="first_byte_s"):
            await read(client, data=None)


async def test_ticks_and_rests() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD % 2 + b"a")
        await asyncio.sleep(0.4)
        writer.write(b"b")
        await writer.drain()

    async with raw_server(handle) as url, connected(url, idle_s=0.1) as client:
        async with client.request("GET", "/") as response:
            got = [chunk async for chunk in client.chunks(response, tick_s=0.08, rests=True)]
        assert b"".join(got) == b"ab"
        assert 2 <= got.count(b"") <= 5
        heard_s = time.monotonic() - client.heard_s
        assert heard_s < 0.3
        async with client.request("GET", "/") as response:
            with pytest.raises(TargetBroken, match=r"silent for 0\.1 s"):
                assert [chunk async for chunk in client.chunks(response)] == []


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 100\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
async def test_a_body_that_is_not_whole(body: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + body)
        await writer.drain()

    async with raw_server(handle) as url, connected(url) as client:
        with pytest.raises((TargetBroken, TargetUnreachable)):
            await read(client)


async def test_a_body_that_goes_wrong_later() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(b"zz\r\n")
        await writer.drain()

    async with raw_server(handle) as url, connected(url) as client, asyncio.timeout(10):
        with pytest.raises(TargetBroken, match="broke off"):
            await read(client)


@pytest.mark.parametrize("data", [BODY, None])
async def test_a_stale_connection_is_replaced_once(data: bytes | None) -> None:
    heads: list[bytes] = []
    numbers = iter(range(100))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"POST" in head:
                await reader.readexactly(len(BODY))
            heads.append(head)
            if len(heads) == 2 and number == 0:
                return  # died while it was kept alive
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()

    async with raw_server(handle) as url, connected(url) as client:
        assert await read(client, data=data) == b"ok"
        assert await read(client, data=data) == b"ok"
    assert len(heads) == 3


async def test_all_stale_connections_are_replaced() -> None:
    """They rest side by side, and the server closes all of them while the loop is busy."""
    heads: list[bytes] = []
    together = asyncio.Barrier(3)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(BODY))
        if len(heads) <= 3:
            await together.wait()
        writer.write(HEAD % 2 + b"ok")
        await writer.drain()
        heads.append(await reader.readuntil(BODY))

    async with raw_server(handle) as url, connected(url) as client:
        assert await asyncio.gather(*(read(client) for _ in range(3))) == [b"ok"] * 3
        assert await read(client) == b"ok"
    assert len(heads) == 7  # three that die of it, and one that is new


async def test_what_may_have_killed_the_target_is_not_sent_to_the_next_one() -> None:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(BODY))
        writer.write(HEAD % 2 + b"ok")
        heads.append(await reader.readuntil(BODY))
        await asyncio.sleep(0.3)  # died of it

    async with raw_server(handle) as url, connected(url) as client:
        client.stale_s = 0.1
        assert await read(client) == b"ok"
        with pytest.raises(TargetUnreachable):
            await read(client)
    assert len(heads) == 2


async def test_a_streamed_body_is_never_sent_twice() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        await reader.readuntil(b"\r\n\r\n")

    async def body() -> AsyncIterator[bytes]:
        yield b"once"

    async with raw_server(handle) as url, connected(url) as client:
        assert await read(client, data=None) == b"ok"
        with pytest.raises(TargetUnreachable):
            async with client.request("POST", "/x", data=body()):
                pass


async def test_leaving_an_answer_stops_it(target: ScriptedTarget) -> None:
    body = b'{"prompt":"Hi","n_predict":2000,"ignore_eos":true,"stream":true}'
    target.clock.pass_ms = 2.0
    async with connected(target.url) as client:
        async with client.request("POST", "/completion", data=body) as response:
            async for _ in client.chunks(response):
                break
        await until(lambda: not target.engine.has_work)
    assert len(target.passes) < 500


async def test_stopping_ends_who_waits_and_who_comes(target: ScriptedTarget) -> None:
    target.faults.hang = True
    async with connected(target.url) as client:
        waiting = spawn(read(client), name="read")
        await target.wait_for("/completion")
        client.stop()
        client.stop()
        with pytest.raises(TargetUnreachable, match="specproxy was stopped"):
            await waiting
        with pytest.raises(TargetUnreachable, match="specproxy was stopped"):
            await client.json("GET", "/health")


async def test_the_key_goes_to_the_target_whatever_the_client_sent() -> None:
    async with ScriptedTarget(api_key="target-key") as target:
        async with connected(target.url, api_key="target-key") as client:
            headers = {"Authorization": "Bearer client-key"}
            async with client.request("GET", "/props", headers=headers) as response:
                assert response.status == 200
            await client.json("GET", "/props")
        sent = [request.headers["Authorization"] for request in target.requests]
        assert sent == ["Bearer target-key"] * 2


async def test_paths_keep_their_encoding_and_bases_their_path(target: ScriptedTarget) -> None:
    path = "/echo/a%2Fb%20c?x=%26&y=a+b&z="
    async with connected(target.url) as client, client.request("GET", path) as response:
        assert response.headers["X-Echo-Path"] == path
    base = f"{target.url}/echo/base/"
    async with connected(base) as client, client.request("GET", "/v1") as response:
        assert response.headers["X-Echo-Path"] == "/echo/base/v1"


async def test_redirects_and_cookies_are_the_clients_business(target: ScriptedTarget) -> None:
    target.faults.match = lambda request: True
    target.faults.answer = CannedAnswer(302, headers={"Location": "/health", "Set-Cookie": "a=b"})
    async with connected(target.url) as client:
        for _ in range(2):
            async with client.request("GET", "/x") as response:
                assert response.status == 302
    assert [request.path for request in target.requests] == ["/x", "/x"]
    assert all("Cookie" not in request.headers for request in target.requests)
