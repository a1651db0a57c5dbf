"""The generating routes: llama-server's shapes, whatever a pass emits; ends of all kinds."""

import json
from typing import Any

import aiohttp
import pytest

from specproxy.testing import Language, until
from specproxy.testing.coordinator import ScriptedCoordinator
from tests.coordinator.http.conftest import Pair, ask, paired

HI = [{"role": "user", "content": "Hello world"}]
GREEDY = {"temperature": 0, "max_tokens": 24}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "native": ("native", {"prompt": "The sea", **GREEDY}),
    "native ids": ("native", {"prompt": [9, 10, 11], **GREEDY, "return_tokens": True}),
    "native probs": ("native", {"prompt": "The sea", **GREEDY, "n_probs": 1}),
    "native several": ("native", {"prompt": ["The sea", "A"], **GREEDY}),
    "native one token": ("native", {"prompt": "The sea", "temperature": 0, "n_predict": 0}),
    "native empty": ("native", {"prompt": "", **GREEDY}),
    "native sampled": ("native", {"prompt": "The sea", "n_predict": 40, "seed": 7}),
    "native to the end": ("native", {"prompt": "It was", "temperature": 0, "n_predict": -1}),
    "text": ("completions", {"prompt": "The sea", **GREEDY}),
    "text probs": ("completions", {"prompt": "The sea", **GREEDY, "logprobs": 1}),
    "text n": ("completions", {"prompt": "The sea", **GREEDY, "n": 3}),
    "text verbose": ("completions", {"prompt": "The sea", **GREEDY, "verbose": True}),
    "chat": ("chat", {"messages": HI, **GREEDY}),
    "chat probs": ("chat", {"messages": HI, **GREEDY, "logprobs": True, "top_logprobs": 1}),
    "chat no probs": ("chat", {"messages": HI, **GREEDY, "logprobs": True, "top_logprobs": 0}),
    "chat usage": ("chat", {"messages": HI, **GREEDY, "stream_options": {"include_usage": True}}),
    "chat verbose": ("chat", {"messages": HI, **GREEDY, "verbose": True}),
    "chat timed": ("chat", {"messages": HI, **GREEDY, "timings_per_token": True}),
}


def settled(value: Any) -> Any:
    """Streams of several choices interleave as they like; llama-server says `null` where all but
    the first begin."""
    if isinstance(value, list):
        value = [chunk for chunk in value if chunk is not None]
    if isinstance(value, list) and value and isinstance(value[0], dict) and "choices" in value[0]:
        return sorted(
            (chunk for chunk in value if isinstance(chunk, dict)),
            key=lambda chunk: [choice["index"] for choice in chunk["choices"]],
        )
    if isinstance(value, list) and value and isinstance(value[0], dict) and "index" in value[0]:
        return sorted(value, key=lambda chunk: chunk["index"])
    return value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("tokens_per_step", [1, 5])
async def test_answers_are_those_of_llama_server(
    name: str, stream: bool, tokens_per_step: int
) -> None:
    kind, body = BODIES[name]
    async with paired(tokens_per_step=tokens_per_step) as pair:
        expected, found = await pair.both(kind, {**body, "stream": stream})
    assert found.status == expected.status == 200
    assert found.content_type == expected.content_type
    assert settled(found.content) == settled(expected.content)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["native", "completions", "chat"])
@pytest.mark.parametrize("tokens_per_step", [1, 2, 5])
async def test_stop_strings_do_not_depend_on_how_many_tokens_a_pass_gives(
    kind: str, stream: bool, tokens_per_step: int
) -> None:
    output = "The old stone fell. 日本 The bird sang on the sea."
    language = Language().with_script("So it", output).with_script("So it", output, chat=True)
    prompt = {"messages": [{"role": "user", "content": "So it"}]} if kind == "chat" else {}
    async with paired(language, tokens_per_step=tokens_per_step) as pair:
        for stop in (
            "fell",
            "ll. 日",
            "本 The",
            "sea.",
            "nowhere",
            "e",
            "The old stone fell. 日本",
        ):
            body = {"prompt": "So it", **prompt, **GREEDY, "stop": [stop, "nothing"]}
            expected, found = await pair.both(kind, {**body, "stream": stream})
            assert found == expected, stop


async def test_a_stop_string_ends_the_counts_too() -> None:
    language = Language().with_script("So", "one two three four five six")
    async with paired(language, tokens_per_step=20) as pair:
        body = {"prompt": "So", "temperature": 0, "stop": "two", "return_tokens": True}
        _, found = await pair.both("native", body)
        shown = found.content
        vocabulary = language.vocabulary
        text = b"".join(vocabulary.piece(token) for token in shown["tokens"]).decode()
        assert shown["content"] == "one "
        assert text.startswith("one two")
        assert not text.startswith("one two ")
        assert shown["tokens_predicted"] == len(shown["tokens"])
        assert (shown["stop_type"], shown["stopping_word"]) == ("word", "two")
        await until(lambda: pair.coordinator.engine.num_busy == 0)


async def test_a_character_that_a_limit_cuts() -> None:
    language = Language().with_script("So", "🚀")
    async with paired(language) as found:
        for stream in (False, True):
            body = {"prompt": "So", "temperature": 0, "max_tokens": 2, "stream": stream}
            for kind in ("native", "completions"):
                expected, got = await found.both(kind, body)
                assert got == expected


async def test_the_context_limits_an_answer(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(Language(mean_length=0), num_context=40) as coordinator:
        body = {"prompt": "The sea", "temperature": 0}
        reply = await ask(client, coordinator.url, "native", body)
        assert reply.content["truncated"] is True
        assert reply.content["stop_type"] == "limit"
        long = await ask(client, coordinator.url, "native", {"prompt": [9] * 40})
    assert long.status == 400
    error = long.content["error"]
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (40, 40)


async def test_response_fields(pair: Pair) -> None:
    body = {
        "prompt": "The sea",
        **GREEDY,
        "response_fields": ["content", "generation_settings/n_predict", "nothing"],
    }
    reply = await ask(pair.client, pair.coordinator.url, "native", body)
    assert set(reply.content) == {"content", "generation_settings/n_predict"}


async def test_the_cache_shows_in_usage(pair: Pair) -> None:
    body = {"prompt": "The old stone fell", **GREEDY}
    for _ in range(2):
        async with pair.client.post(f"{pair.coordinator.url}/v1/completions", json=body) as found:
            usage = (await found.json())["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


async def test_a_client_that_leaves_frees_its_place(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(Language(mean_length=0), pass_ms=5) as coordinator:
        body = {"prompt": "The sea", "stream": True, "n_predict": 3000}
        async with client.post(f"{coordinator.url}/completion", json=body) as response:
            await response.content.readline()
            assert coordinator.engine.num_busy == 1
            response.close()
        await until(lambda: coordinator.engine.num_busy == 0)


async def test_a_dead_engine_ends_a_stream_with_an_error_and_no_clean_end(
    client: aiohttp.ClientSession,
) -> None:
    async with ScriptedCoordinator(Language(mean_length=0)) as coordinator:
        coordinator.engine.die_after = 3
        body = {"messages": HI, "stream": True}
        async with client.post(f"{coordinator.url}/v1/chat/completions", json=body) as response:
            assert response.status == 200
            raw, is_whole = await _all_of(response)
        last = json.loads(raw.decode().strip().split("\n\n")[-1].removeprefix("data: "))
        assert last["error"]["code"] == 503
        assert not is_whole
        assert b"[DONE]" not in raw
        again = await ask(client, coordinator.url, "chat", {"messages": HI})
    assert again.status == 503
    assert again.content["error"]["type"] == "unavailable_error"


async def _all_of(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    raw = b""
    try:
        async for chunk in response.content.iter_any():
            raw += chunk
    except aiohttp.ClientPayloadError:
        return raw, False
    return raw, True


async def test_a_dead_engine_fails_a_whole_answer(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(Language(mean_length=0)) as coordinator:
        coordinator.engine.die_after = 3
        reply = await ask(client, coordinator.url, "chat", {"messages": HI})
    assert reply.status == 503


async def test_a_silent_stream_gets_comments(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(Language(mean_length=0), pass_ms=1500) as coordinator:
        body = {"prompt": "A", "stream": True, "n_predict": 1, "sse_ping_interval": 1}
        async with client.post(f"{coordinator.url}/completion", json=body) as response:
            assert (await response.content.readline()) == b":\n"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("native", {}),
        ("native", {"prompt": "x", "temperature": "hot"}),
        ("native", {"prompt": [1, 10**6]}),
        ("completions", {"prompt": "x", "n": 99}),
        ("chat", {}),
        ("chat", {"messages": "x"}),
        ("chat", {"messages": HI, "top_logprobs": 3}),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    ],
)
async def test_bad_requests_are_refused(pair: Pair, kind: str, body: dict[str, Any]) -> None:
    reply = await ask(pair.client, pair.coordinator.url, kind, body)
    assert reply.status == 400
    assert reply.content["error"]["type"] == "invalid_request_error"
    assert pair.coordinator.engine.num_busy == 0


async def test_a_body_that_cannot_be_unpacked(pair: Pair) -> None:
    async with pair.client.post(
        f"{pair.coordinator.url}/completion",
        data=b"no gzip",
        headers={"Content-Encoding": "gzip"},
    ) as response:
        assert response.status == 400


@pytest.mark.parametrize("raw", [b"nojson", b"[1]", b"\xff", b'{"prompt": NaN}', b'"\\ud800"', b""])
async def test_bodies_that_are_no_json_objects(pair: Pair, raw: bytes) -> None:
    async with pair.client.post(f"{pair.coordinator.url}/completion", data=raw) as response:
        assert response.status == 400
        assert (await response.json())["error"]["type"] == "invalid_request_error"


async def test_each_choice_is_the_answer_of_its_seed(pair: Pair) -> None:
    body = {"prompt": "The sea", "max_tokens": 24, "temperature": 1.5}
    url = pair.coordinator.url
    several = await ask(pair.client, url, "completions", {**body, "n": 3, "seed": 5})
    texts = [choice["text"] for choice in several.content["choices"]]
    alone = [
        (await ask(pair.client, url, "completions", {**body, "seed": 5 + i})).content["choices"][0]
        for i in range(3)
    ]
    assert texts == [choice["text"] for choice in alone]
    assert len(set(texts)) == 3
