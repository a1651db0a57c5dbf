"""What is no valid HTTP, or asks for what is not known: errors in the OpenAI shape, too."""

import asyncio
import json

import pytest

from specproxy.testing.rig import Rig, proxied

CANARY = "sk-CANARY"
CHAT = b'{"messages":[{"role":"user","content":"Hi"}],"temperature":0,"max_tokens":2}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


async def exchange(rig: Rig, sent: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to raw bytes."""
    host, port = rig.server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.read()
    writer.close()
    first, *lines = head.decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-CANARY\x00\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nNo colon sk-CANARY\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    ],
)
async def test_what_is_no_http(sent: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    async with proxied() as rig:
        status, headers, body = await exchange(rig, sent)
        assert status == 400
        assert headers["content-type"].startswith("application/json")
        error = json.loads(body)["error"]
        assert (error["type"], error["source"]) == ("invalid_request_error", "specproxy")
        assert CANARY not in body.decode()
    out, err = capsys.readouterr()
    assert CANARY not in out + err
    assert "could not be read" in out + err


async def test_expectations() -> None:
    async with proxied() as rig:
        length = b"Content-Length: %d\r\n" % len(CHAT)
        sent = HEAD + length + b"Expect: 200-ok\r\n\r\n" + CHAT
        status, headers, body = await exchange(rig, sent)
        assert status == 417
        assert headers["content-type"].startswith("application/json")
        assert json.loads(body)["error"]["source"] == "specproxy"
        for expected in (b"100-continue", b"100-Continue"):
            sent = HEAD + length + b"Expect: " + expected + b"\r\n\r\n" + CHAT
            status, _, body = await exchange(rig, sent)
            assert status == 100
            assert body.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_length_that_lies() -> None:
    """Too long a length: the body never ends, and the client that leaves is forgotten."""
    async with proxied() as rig:
        host, port = rig.server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n" + CHAT)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await rig.rest()
        assert not rig.target.received("/v1/chat/completions")


async def test_a_limit_beyond_the_kernels_is_the_kernels(caplog: pytest.LogCaptureFixture) -> None:
    async with proxied(settings={"listen": {"write_s": 1e9}}) as rig:
        assert (await rig.send("GET", "/v1/models")).status == 200
    assert caplog.records == []
