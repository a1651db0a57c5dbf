"""Headers cross by allow-list, keys where they are meant."""

import pytest

from specproxy.server.headers import for_client, for_target
from specproxy.testing import ScriptedTarget
from specproxy.testing.rig import proxied

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 4}
CLIENT = {"Authorization": "Bearer client-key"}
ODD = {
    "Cookie": "a=b",
    "X-Forwarded-For": "10.0.0.1",
    "X-Odd": "1",
    "User-Agent": "test/1",
    "X-Request-Id": "42",
    "Accept-Language": "de",
    "Connection": "keep-alive",
}


def test_allow_lists() -> None:
    sent = for_target({**ODD, **CLIENT, "X-Api-Key": "k"}, credentials=False, request_id="id")
    assert set(sent) == {"User-Agent", "x-request-id", "Accept-Language"}
    sent = for_target({**CLIENT, "x-api-key": "k"}, credentials=True, request_id="id")
    assert sent == {**CLIENT, "x-api-key": "k", "x-request-id": "id"}
    names = ["Server", "Set-Cookie", "Transfer-Encoding", "Connection", "X-Echo-Path"]
    assert not for_client(dict.fromkeys(names, "x"))
    assert not for_client({"Access-Control-Allow-Origin": "*"})
    names = ["Content-Type", "ETAG", "Retry-After", "Mcp-Session-Id", "Cross-Origin-Opener-Policy"]
    assert list(for_client(dict.fromkeys(names, "x"))) == names


def test_headers_of_llama_servers_own() -> None:
    """What its web UI sends for tools and MCP servers."""
    names = ["X-Tool-Cwd", "x-tool-runtime", "x-resp-type"]
    names += ["X-Llama-Server-Proxy-Header-Authorization", "x-llama-server-proxy-header-x-odd"]
    sent = for_target({**ODD, **dict.fromkeys(names, "x")}, credentials=False, request_id="id")
    assert {name for name, value in sent.items() if value == "x"} == set(names)
    sent = for_target({"X-Conversation-Id": "x"}, credentials=True, request_id="id")
    assert sent == {"x-request-id": "id"}  # with it the target ignores a client that leaves


@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_relayed_request_carries(stream: bool) -> None:
    async with proxied() as rig:
        body = {**CHAT, "stream": stream}
        got = await rig.ask("chat", body, headers={**ODD, "Origin": "http://ui"})
        assert got.status == 200
        (request,) = [one for one in rig.target.requests if one.path == "/v1/chat/completions"]
        assert (request.headers["User-Agent"], request.headers["X-Request-Id"]) == ("test/1", "42")
        assert not {"Cookie", "X-Odd", "X-Forwarded-For"} & set(request.headers)
        assert got.headers.getall("Content-Type") == [request_type(stream)]
        assert got.headers["x-specproxy-route"] == "default"
        if stream:
            assert (got.headers["Cache-Control"], got.headers["X-Accel-Buffering"]) == (
                "no-cache",
                "no",
            )
            assert "Content-Length" not in got.headers


def request_type(stream: bool) -> str:
    return "text/event-stream" if stream else "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("client_key", "target_key", "seen"),
    [
        (None, None, "Bearer client-key"),
        ("client-key", None, None),
        (None, "target-key", "Bearer target-key"),
        ("client-key", "target-key", "Bearer target-key"),
    ],
)
async def test_whose_key_the_target_sees(
    client_key: str | None, target_key: str | None, seen: str | None
) -> None:
    settings = {"listen": {"api_key": client_key}, "target": {"api_key": target_key}}
    async with proxied(probed=True, settings=settings, api_key=target_key) as rig:
        for kind in ("chat", "/v1/embeddings"):
            for more in ({}, {"stream": True}, {"n": 2}):
                await rig.ask(kind, {**CHAT, **more, "input": "a"}, headers=CLIENT)
        await rig.rest()
        relayed = [
            one
            for one in rig.target.requests
            if one.path in ("/v1/chat/completions", "/v1/embeddings")
        ]
        own = [one for one in rig.target.requests if one not in relayed]
        assert len(relayed) == 6
        assert {one.path for one in own} >= {"/apply-template", "/tokenize"}
        assert {one.headers.get("Authorization") for one in relayed} == {seen}
        own_key = f"Bearer {target_key}" if target_key else None
        assert {one.headers.get("Authorization") for one in own} == {own_key}
        if client_key or target_key:
            headers = {**CLIENT, "X-Api-Key": "client-key"}
            await rig.ask("chat", CHAT, headers=headers)
            assert not any("X-Api-Key" in one.headers for one in rig.target.requests)


async def test_an_old_name_for_the_key() -> None:
    async with proxied(settings={"listen": {"api_key": "client-key"}}) as rig:
        got = await rig.ask("chat", CHAT, headers={"x-api-key": "client-key"})
        assert got.status == 200


async def test_the_targets_refusal_of_a_key_is_the_targets() -> None:
    async with proxied(ready=False, api_key="target-key") as rig:
        assert isinstance(rig.target, ScriptedTarget)
        got = await rig.ask("chat", CHAT, headers=CLIENT)
        assert got == await rig.alone("chat", CHAT, headers=CLIENT)
        assert got.status == 401
        assert "source" not in got.json["error"]
        headers = {"Authorization": "Bearer target-key"}
        assert (await rig.ask("chat", CHAT, headers=headers)).status == 200
