"""Who may come in, and the shape of the proxy's own errors."""

import asyncio
import gzip

import pytest

from specproxy.server.app import Server
from specproxy.settings import load
from specproxy.testing.rig import Rig, proxied

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 4}
KEY = {"listen": {"api_key": "client-key"}}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer cl\u00efent-key"},
        {"X-Api-Key": "client-key "[:-2]},
    ],
)
async def test_without_its_key_nobody_comes_in(headers: dict[str, str]) -> None:
    async with proxied(settings=KEY, ready=False) as rig:
        for method, path in (
            ("POST", "chat"),
            ("GET", "/v1/models"),
            ("GET", "/metrics"),
            ("GET", "/specproxy/status"),
            ("POST", "/health"),
        ):
            num_before = len(rig.target.received("/v1/models"))
            got = await rig.send(method, path, headers=headers)
            assert got.status == 401
            error = got.json["error"]
            assert (error["type"], error["code"]) == ("authentication_error", 401)
            assert error["source"] == "specproxy"
            assert "Bearer KEY" in error["message"]
            assert len(rig.target.received("/v1/models")) - num_before <= 1  # the route's own
        assert not rig.target.received("/v1/chat/completions")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer client-key"},
        {"Authorization": "bearer client-key"},
        {"x-api-key": "client-key"},
        {"Authorization": "Bearer client-key", "x-api-key": "another"},
        {"Authorization": "Bearer another", "x-api-key": "client-key"},
    ],
)
async def test_the_key_in_either_header(headers: dict[str, str]) -> None:
    async with proxied(settings=KEY, ready=False) as rig:
        assert (await rig.send("GET", "/v1/models", headers=headers)).status == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/echo"])
async def test_a_body_that_cannot_be_read_is_the_clients_fault(path: str) -> None:
    async with proxied() as rig:
        got = await rig.send("POST", path, data=b"hello", headers={"Content-Encoding": "gzip"})
        assert got.status == 400
        assert got.json["error"]["type"] == "invalid_request_error"


async def test_what_needs_no_key() -> None:
    async with proxied(settings=KEY) as rig:
        for path in ("/health", "/v1/health"):
            assert (await rig.send("GET", path)).status == 200
        assert (await rig.send("OPTIONS", "/echo")).status == 200  # browsers ask without a key


@pytest.mark.parametrize(
    ("method", "path"),
    [("OPTIONS", "/echo"), ("GET", "/health"), ("GET", "/v1/health"), ("GET", "/specproxy/")],
)
@pytest.mark.parametrize("encoding", [None, "gzip"])
async def test_no_body_of_a_stranger_is_read(method: str, path: str, encoding: str | None) -> None:
    body = gzip.compress(bytes(1 << 20)) if encoding else b"x" * 1000
    headers = {"Content-Encoding": encoding} if encoding else {}
    async with proxied(settings=KEY) as rig:
        got = await rig.send(method, path, data=body, headers=headers)
        assert got.status == 401
        assert not any(request.body for request in rig.target.received(path))
        key = {"Authorization": "Bearer client-key"}
        got = await rig.send(method, path, data=body, headers={**headers, **key})
        assert got.status == 200


async def test_a_key_of_broken_bytes_is_a_wrong_key() -> None:
    async with proxied(settings=KEY, ready=False) as rig:
        assert await raw_status(rig, b"Authorization: Bearer \xff\xfe\r\n") == 401


async def raw_status(rig: Rig, header: bytes) -> int:
    host, port = rig.server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + b"\r\n")
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def test_a_body_that_is_too_large() -> None:
    async with proxied(settings={"listen": {"max_body_bytes": 2000}}) as rig:
        got = await rig.ask("chat", {**CHAT, "user": "x" * 3000})
        assert got.status == 413
        assert got.json["error"]["type"] == "invalid_request_error"
        assert "listen.max_body_bytes" in got.json["error"]["message"]
        assert not rig.target.received("/v1/chat/completions")


async def test_no_target_is_unavailable_and_says_when_to_come_back() -> None:
    async with proxied() as rig:
        await rig.target.down()
        for method, path, body in (
            ("POST", "chat", CHAT),
            ("POST", "chat", {**CHAT, "stream": True}),
            ("POST", "chat", {**CHAT, "n": 2}),
            ("GET", "/v1/models", None),
        ):
            got = await rig.send(method, path, json=body)
            assert (got.status, got.headers["Retry-After"]) == (503, "5")
            error = got.json["error"]
            assert (error["type"], error["source"]) == ("unavailable_error", "specproxy")
            assert "llama-server" in error["message"]
        await rig.rest()


async def test_a_failure_of_the_proxys_own_is_an_error_in_the_same_shape() -> None:
    async with proxied() as rig:
        client, session = rig.server.route.client, rig.server.route.client._session
        client._session = None  # as if used outside its context
        got = await rig.send("GET", "/v1/models")
        client._session = session
        assert got.status == 500
        assert got.json["error"]["type"] == "server_error"


async def test_it_listens_on_ipv6_too() -> None:
    async with Server(load(None, listen={"host": "::1", "port": 0}), None) as server:
        assert server.url.startswith("http://[::1]:")
