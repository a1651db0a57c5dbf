"""The routes that do not generate: as llama-server's, or said not to be there."""

import io
from typing import Any

import aiohttp
import pytest

from specproxy.coordinator.app import MAX_BODY_BYTES
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.testing.coordinator import ScriptedCoordinator
from tests.coordinator.http.conftest import Pair, ask


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": "The sea 🚀"}),
        ("/tokenize", {"content": "The sea 🚀", "with_pieces": True, "add_special": True}),
        ("/tokenize", {"content": ["The", 9, "<|im_end|>"], "parse_special": False}),
        ("/tokenize", {}),
        ("/detokenize", {"tokens": [0, 1, 2, 9, 300]}),
        ("/detokenize", {}),
        ("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}),
    ],
)
async def test_token_routes_are_those_of_llama_server(pair: Pair, path: str, body: Any) -> None:
    expected, found = await pair.both(path, body)
    assert found.status == 200
    assert found == expected


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": 5}),
        ("/tokenize", {"content": ["a", {}]}),
        ("/detokenize", {"tokens": ["a"]}),
        ("/detokenize", {"tokens": [10**9]}),
        ("/detokenize", {"tokens": 5}),
    ],
)
async def test_wrong_tokens_are_refused(pair: Pair, path: str, body: Any) -> None:
    assert (await ask(pair.client, pair.coordinator.url, path, body)).status == 400


async def test_the_proxy_reads_its_facts(pair: Pair) -> None:
    async with TargetClient(TargetSettings(url=pair.coordinator.url)) as client:
        facts = await read_facts(client)
    engine = pair.coordinator.engine
    assert facts.takes_drafts
    assert facts.model == engine.model_name
    assert facts.num_slots == len(engine.states())
    assert facts.num_context == engine.num_context
    assert facts.num_vocab == len(engine.vocabulary)
    assert facts.life


async def test_another_life_has_another_marker(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator() as coordinator:
        markers = []
        for _ in range(2):
            async with client.get(f"{coordinator.url}/props") as response:
                markers.append((await response.json())["media_marker"])
            await coordinator.down()
            await coordinator.up()
    assert len(set(markers)) == 2


@pytest.mark.parametrize("path", ["/props", "/v1/models", "/slots"])
async def test_what_it_says_of_itself_has_llama_servers_keys(pair: Pair, path: str) -> None:
    async def keys(url: str) -> Any:
        async with pair.client.get(url + path) as response:
            return _keys(await response.json())

    expected, found = await keys(pair.target.url), await keys(pair.coordinator.url)
    extra = {"specproxy", "specproxy.drafts"} if path == "/props" else set()
    caps = {key for key in found if key.startswith("chat_template_caps.")}
    free = {key for key in found if key.startswith(("[].n_prompt_tokens", "[].next_token"))}
    assert found - extra - caps - free == expected


def _keys(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict):
        inner = (_keys(one, f"{path}.{key}".lstrip(".")) for key, one in value.items())
        return {f"{path}.{key}".lstrip(".") for key in value}.union(*inner)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _keys(value[0], f"{path}[]")
    return set()


async def test_no_place_left(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(num_places=1, pass_ms=50) as coordinator:
        body = {"prompt": "The sea", "stream": True, "ignore_eos": True}
        async with client.post(f"{coordinator.url}/completion", json=body) as running:
            await running.content.readline()
            async with client.get(f"{coordinator.url}/slots?fail_on_no_slot=1") as response:
                assert response.status == 503
            async with client.get(f"{coordinator.url}/slots") as response:
                assert (await response.json())[0]["is_processing"] is True
            running.close()


async def test_metrics_count_what_was_generated(pair: Pair) -> None:
    body = {"prompt": "The sea", "temperature": 0, "max_tokens": 12}
    await ask(pair.client, pair.coordinator.url, "native", body)
    async with pair.client.get(f"{pair.coordinator.url}/metrics") as response:
        assert response.content_type == "text/plain"
        lines = (await response.text()).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["llamacpp:tokens_predicted_total"] == "12"
    assert values["llamacpp:n_decode_total"] == "12"
    assert values["llamacpp:prompt_tokens_total"] == "3"
    assert values["llamacpp:requests_processing"] == "0"
    assert values["specproxy:pass_rows_total"] == str(3 + 11)


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/v1/embeddings", "embeddings"),
        ("/rerank", "reranking"),
        ("/infill", "infill"),
        ("/v1/responses", "Responses"),
        ("/v1/messages", "Anthropic"),
        ("/v1/audio/transcriptions", "audio"),
        ("/lora-adapters", "LoRA"),
        ("/props", "properties"),
        ("/slots/0", "slots"),
    ],
)
async def test_what_is_not_there_is_said(pair: Pair, path: str, word: str) -> None:
    reply = await ask(pair.client, pair.coordinator.url, path, {})
    assert reply.status == 501
    assert reply.content["error"]["type"] == "not_supported_error"
    assert word in reply.content["error"]["message"]


async def test_other_paths_are_not_found(pair: Pair) -> None:
    for method, path in (("GET", "/nothing"), ("DELETE", "/props"), ("GET", "/completion")):
        async with pair.client.request(method, pair.coordinator.url + path) as response:
            assert response.status == 404
            assert "/v1/chat/completions" in (await response.json())["error"]["message"]


async def test_an_api_key(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(api_key="secret") as coordinator:

        async def status(path: str, **headers: str) -> int:
            async with client.get(coordinator.url + path, headers=headers) as response:
                return response.status

        assert await status("/health") == 200
        assert await status("/props") == 401
        assert await status("/props", Authorization="Bearer wrong") == 401
        assert await status("/specproxy/drafts") == 401
        assert await status("/props", Authorization="Bearer secret") == 200
        assert await status("/props", **{"X-Api-Key": "secret"}) == 200


async def test_web_pages_may_ask(pair: Pair) -> None:
    url = f"{pair.coordinator.url}/props"
    origin = {"Origin": "http://page.test"}
    async with pair.client.options(url, headers=origin) as response:
        assert response.status == 200
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
    async with pair.client.get(url, headers=origin) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "http://page.test"


async def test_a_body_that_is_too_large(pair: Pair) -> None:
    body = io.BytesIO(b"x" * (MAX_BODY_BYTES + 1))
    async with pair.client.post(f"{pair.coordinator.url}/tokenize", data=body) as response:
        assert response.status == 413


async def test_how_many_tokens_a_chat_has(pair: Pair) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    path = f"{pair.coordinator.url}/v1/chat/completions"
    async with pair.client.post(f"{path}/input_tokens", json=body) as response:
        counted = await response.json()
    async with pair.client.post(path, json=body) as response:
        usage = (await response.json())["usage"]
    assert counted["input_tokens"] == usage["prompt_tokens"]
