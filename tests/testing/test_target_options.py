"""The scripted target over HTTP: refusals, options, what it tells and records."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from specproxy.testing import Language, ScriptedTarget

LANGUAGE = Language().with_script("Hi", "Hello 😀 world", chat=True).with_script("Hi", " the sea")
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(LANGUAGE, num_slots=3) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def post(client: aiohttp.ClientSession, url: str, body: Any) -> tuple[int, Any]:
    async with client.post(url, json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/chat/completions", "{}", 400, "'messages' is required"),
        ("/v1/chat/completions", '{"messages":"x"}', 400, "Expected 'messages' to be an array"),
        ("/completion", "{bad", 500, "parse error"),
        ("/completion", "{}", 400, "key 'prompt' not found"),
        ("/completion", '{"prompt":[]}', 400, '"prompt" must not be empty'),
        ("/completion", '{"prompt":[99999]}', 400, "Prompt contains invalid tokens"),
        ("/completion", '{"prompt":"a","n_predict":"x"}', 400, "must be number, but is string"),
        ("/completion", '{"prompt":"a","n":0}', 400, "between 1 <= value <= 3, but got 0"),
        ("/completion", '{"prompt":"a","n":0.9}', 400, "between 1 <= value <= 3, but got 0"),
        ("/completion", '{"prompt":"a","n":1,"n_cmpl":4}', 400, "'n_cmpl': Value must be between"),
        ("/nope", "{}", 404, "File Not Found"),
    ],
)
async def test_errors(
    target: ScriptedTarget,
    client: aiohttp.ClientSession,
    path: str,
    body: str,
    status: int,
    message: str,
) -> None:
    async with client.post(target.url + path, data=body) as response:
        assert response.status == status
        assert response.headers["Connection"] == "close"
        error = (await response.json())["error"]
    assert message in error["message"]
    assert error["code"] == status


async def test_too_long_prompts_are_refused_streamed_or_not(
    client: aiohttp.ClientSession,
) -> None:
    async with ScriptedTarget(n_ctx=16) as target:
        for stream in (False, True):
            body = {"prompt": list(range(100, 120)), "stream": stream}
            status, got = await post(client, f"{target.url}/v1/completions", body)
            assert status == 400
            assert got["error"]["type"] == "exceed_context_size_error"
            assert (got["error"]["n_prompt_tokens"], got["error"]["n_ctx"]) == (20, 16)


async def test_options(client: aiohttp.ClientSession) -> None:
    lacking = ["/apply-template"]
    options = {"api_key": "sekrit", "lacking": lacking, "has_ngram_pool": False}
    async with ScriptedTarget(**options) as target:  # type: ignore[arg-type]
        assert target.pool is None
        async with client.get(f"{target.url}/health") as response:
            assert response.status == 200
        status, got = await post(client, f"{target.url}/tokenize", {})
        assert (status, got["error"]["type"]) == (401, "authentication_error")
        client.headers["Authorization"] = "Bearer sekrit"
        assert (await post(client, f"{target.url}/tokenize", {}))[0] == 200
        assert (await post(client, f"{target.url}/apply-template", CHAT))[0] == 404


async def test_requests_are_recorded_and_echo_gives_back(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    url = f"{target.url}/echo/a%20b?x=1&x=2&status=418"
    data = bytes(range(256))
    async with client.request("PATCH", url, data=data, headers={"X-Own": "1"}) as response:
        assert response.status == 418
        assert await response.read() == data
        assert response.headers["X-Echo-Method"] == "PATCH"
    (received,) = target.requests
    assert (received.method, received.path) == ("PATCH", "/echo/a b")
    assert received.query == "x=1&x=2&status=418"
    assert received.headers["X-Own"] == "1"
    assert received.body == data


async def test_info_routes(target: ScriptedTarget, client: aiohttp.ClientSession) -> None:
    await post(client, f"{target.url}/v1/chat/completions", CHAT)
    async with client.get(f"{target.url}/props") as response:
        props = await response.json()
        assert response.headers["Server"] == "llama.cpp"
    assert props["total_slots"] == 3
    assert props["default_generation_settings"]["n_ctx"] == 4096
    async with client.get(f"{target.url}/slots") as response:
        slots = await response.json()
    assert [slot["id"] for slot in slots] == [0, 1, 2]
    assert all(slot["speculative"] and not slot["is_processing"] for slot in slots)
    async with client.get(f"{target.url}/v1/models") as response:
        assert (await response.json())["data"][0]["meta"]["n_vocab"] == len(LANGUAGE.vocabulary)
    async with client.get(f"{target.url}/metrics") as response:
        assert "llamacpp:tokens_predicted_total 8" in await response.text()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_verbose_shows_the_servers_own_result_beside_the_openai_shape(
    target: ScriptedTarget, client: aiohttp.ClientSession, path: str, stream: bool
) -> None:
    body = {**CHAT, "prompt": "Hi", "verbose": True, "stream": stream, "stop": ["sea", "world"]}
    async with client.post(target.url + path, json=body) as response:
        text = (await response.read()).decode()
    blocks = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    shown = [json.loads(block).get("__verbose") for block in blocks if block != "[DONE]"]
    finals = [one for one in shown if one is not None and one["stop"]]
    assert len(finals) == 1
    assert finals[0]["stop_type"] == "word"
    assert finals[0]["generation_settings"]["stop"] == ["sea", "world"]
    assert finals[0]["generation_settings"]["stream"] is stream
    partials = [one for one in shown if one is not None and not one["stop"]]
    assert bool(partials) == (stream and path == "/v1/completions")
    assert all(len(one["tokens"]) == 1 for one in partials)


async def test_every_process_has_its_own_media_marker(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    markers = set()
    for _ in range(2):
        async with client.get(f"{target.url}/props") as response:
            markers.add((await response.json())["media_marker"])
        await target.down()
        await target.up()
    assert len(markers) == 2
