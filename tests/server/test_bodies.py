"""Limits of bodies: the general one, and those of routes."""

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from specproxy.testing.rig import PATHS, Answer, proxied
from specproxy.testing.routed import routed

GENERAL = 4000
ROUTES = {
    "plain": {"keys": ["plain-key"]},
    "large": {"max_body_bytes": 8000, "keys": ["large-key"]},
    "small": {"max_body_bytes": 2000, "keys": ["small-key"]},
}
LIMITS = [
    ("plain", GENERAL, "listen.max_body_bytes"),
    ("large", 8000, "routes.large.max_body_bytes"),
    ("small", 2000, "routes.small.max_body_bytes"),
]
LISTEN = {"listen": {"max_body_bytes": GENERAL, "api_key": "owner"}}
OWNER = {"Authorization": "Bearer owner"}
JSON = {"Content-Type": "application/json"}
MARK = "--mark"


def sized(model: str, num_bytes: int) -> bytes:
    """A chat, or whatever else it is taken for, of that size."""
    chat = {"model": model, "max_tokens": 4, "temperature": 0, "input": "a", "user": ""}
    body: dict[str, Any] = {**chat, "messages": [{"role": "user", "content": "Hi"}]}
    body["user"] = "x" * (num_bytes - len(json.dumps(body)))
    return json.dumps(body).encode()


def sized_form(model: str, num_bytes: int) -> bytes:
    start = f'--{MARK}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    rest = f'\r\n--{MARK}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}'
    end = f"{rest}\r\n--{MARK}--\r\n".encode()
    return start.encode() + b"\r" * (num_bytes - len(start) - len(end)) + end


async def pieces(raw: bytes) -> AsyncIterator[bytes]:
    step = max(700, len(raw) // 20)
    for start in range(0, len(raw), step):
        yield raw[start : start + step]


def refused(got: Answer, setting: str) -> bool:
    error = got.json["error"]
    assert (error["code"], error["source"]) == (got.status, "specproxy")
    message = f"Raise {setting}."
    return got.status == 413 and str(error["message"]).endswith(message)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["chat", "/v1/embeddings", "/echo", "/echo/form"])
async def test_each_route_has_its_own_limit(path: str, chunked: bool) -> None:
    kind = f"multipart/form-data; boundary={MARK}" if path == "/echo/form" else JSON["Content-Type"]
    headers = {**OWNER, "Content-Type": kind}
    async with routed(ROUTES, settings=LISTEN) as rig:

        async def send(model: str, num_bytes: int) -> Answer:
            raw = (sized_form if path == "/echo/form" else sized)(model, num_bytes)
            assert len(raw) == num_bytes
            data: Any = pieces(raw) if chunked else raw
            return await rig.send("POST", PATHS.get(path, path), data=data, headers=headers)

        for name, limit, setting in LIMITS:
            got = await send(name, limit)
            assert (got.status, got.headers["x-specproxy-route"]) == (200, name)
            rig.targets[name].requests.clear()
            assert refused(await send(name, limit + 1), setting)
            assert not any(one.method == "POST" for one in rig.targets[name].requests)
        assert refused(await send("nobody", 8001), "routes.large.max_body_bytes")
        assert (await send("nobody", 8000)).status == 404


async def test_a_key_reads_no_more_than_its_routes_take() -> None:
    async with routed(ROUTES, settings=LISTEN) as rig:
        for name, limit, setting in LIMITS:
            for model in ROUTES:
                raw = sized(model, limit + 1)
                headers = {**JSON, "x-api-key": f"{name}-key"}
                for data in (raw, pieces(raw)):
                    got = await rig.send("POST", "/echo", data=data, headers=headers)
                    assert refused(got, setting)


async def test_what_says_that_it_is_too_large_is_not_read() -> None:
    """Nothing of the body is sent, and the answer is there."""
    async with routed(ROUTES, settings=LISTEN) as rig:
        for path in ("/v1/chat/completions", "/echo"):
            headers = {**JSON, **OWNER, "Content-Length": "8001"}
            assert (await answered(rig.server.url, path, headers)).startswith(b"HTTP/1.1 413 ")
    async with proxied(settings={"listen": {"max_body_bytes": 2 << 20}}) as single:
        headers = {"Content-Length": str(3 << 20)}
        assert (await answered(single.server.url, "/echo", headers)).startswith(b"HTTP/1.1 413 ")
        assert not single.target.received("/echo")


async def answered(url: str, path: str, headers: dict[str, str]) -> bytes:
    """The first line of the answer to a request whose body does not come."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {path} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize("path", ["chat", "/echo"])
async def test_what_a_compressed_body_becomes_counts(path: str) -> None:
    headers = {**JSON, **OWNER, "Content-Encoding": "gzip"}
    async with routed(ROUTES, settings=LISTEN) as rig:
        for num_bytes, status in ((2000, 200), (2001, 413), (1 << 20, 413)):
            data = gzip.compress(sized("small", num_bytes))
            got = await rig.send("POST", PATHS.get(path, path), data=data, headers=headers)
            assert got.status == status


@pytest.mark.parametrize("path", ["chat", "/echo"])
@pytest.mark.parametrize("num_bytes", [3000, 3 << 20])
@pytest.mark.parametrize("how", ["whole", "chunked", "gzip"])
async def test_a_single_target_has_the_general_limit(path: str, num_bytes: int, how: str) -> None:
    """Also where its bodies are sent on as they come."""
    limit = num_bytes - 1
    async with proxied(settings={"listen": {"max_body_bytes": limit}}) as rig:
        for size, status in ((limit, 200), (num_bytes, 413), (limit, 200)):
            raw = sized("any", size)
            headers = {**JSON, "Content-Encoding": "gzip"} if how == "gzip" else JSON
            data: Any = gzip.compress(raw) if how == "gzip" else raw
            rig.target.requests.clear()
            got = await rig.send(
                "POST",
                path,
                data=pieces(data) if how == "chunked" else io.BytesIO(data),
                headers=headers,
            )
            assert got.status == status
            if status == 413:
                assert refused(got, "listen.max_body_bytes")
            received = rig.target.received(PATHS.get(path, path))
            assert len(received) == (status == 200)
            if path == "/echo" and received:
                assert received[0].body == raw
        await rig.rest()
