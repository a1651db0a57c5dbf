"""The scripted target over HTTP: llama-server's shapes, slots and clock."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from specproxy.core.tasks import spawn
from specproxy.core.vocabulary import decode
from specproxy.testing import Language, ScriptedTarget, generate

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


async def events(client: aiohttp.ClientSession, url: str, body: Any) -> list[Any]:
    async with client.post(url, json={**body, "stream": True}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        text = (await response.read()).decode()
    return [
        block if block == "data: [DONE]" else json.loads(block.removeprefix("data: "))
        for block in text.split("\n\n")
        if block
    ]


async def test_chat_stream(target: ScriptedTarget, client: aiohttp.ClientSession) -> None:
    body = {**CHAT, "stream_options": {"include_usage": True}}
    got = await events(client, f"{target.url}/v1/chat/completions", body)
    deltas = [chunk["choices"][0]["delta"] for chunk in got[:-2]]
    pieces = ["Hello", " ", "😀", " world"]
    assert deltas == [
        {"role": "assistant", "content": None},
        *({"content": piece} for piece in pieces),
        {},
    ]
    finish, usage, done = got[-3:]
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert "timings" not in finish
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 8
    assert usage["timings"]["predicted_n"] == 8
    assert "draft_n" not in usage["timings"]
    assert done == "data: [DONE]"
    assert list(finish) == [
        *("choices", "created", "id", "model", "system_fingerprint", "object"),
    ]


async def test_chat_whole(target: ScriptedTarget, client: aiohttp.ClientSession) -> None:
    status, got = await post(client, f"{target.url}/v1/chat/completions", CHAT)
    assert status == 200
    message = {"role": "assistant", "content": "Hello 😀 world"}
    assert got["choices"] == [{"finish_reason": "stop", "index": 0, "message": message}]
    assert got["object"] == "chat.completion"
    assert list(got["usage"]) == [
        *("completion_tokens", "prompt_tokens", "total_tokens", "prompt_tokens_details"),
    ]


async def test_reasoning_is_split_off_and_streams_alike(client: aiohttp.ClientSession) -> None:
    text = "<think>\n the sea</think>\n\nHello world"
    language = Language(thinks=True).with_script("Hi", text, chat=True)
    async with ScriptedTarget(language) as target:
        url = f"{target.url}/v1/chat/completions"
        _, whole = await post(client, url, CHAT)
        assert whole["choices"][0]["message"] == {
            "role": "assistant",
            "content": "Hello world",
            "reasoning_content": " the sea",
        }
        got = await events(client, url, CHAT)
    deltas = [chunk["choices"][0]["delta"] for chunk in got[1:-1]]
    for name in ("content", "reasoning_content"):
        joined = "".join(delta.get(name, "") for delta in deltas)
        assert joined == whole["choices"][0]["message"][name]


async def test_native_stream(target: ScriptedTarget, client: aiohttp.ClientSession) -> None:
    body = {"prompt": "Hi", "n_predict": 8, "temperature": 0, "return_tokens": True, "id_slot": 1}
    got = await events(client, f"{target.url}/completion", body)
    *partials, final = got
    assert [list(partial) for partial in partials[:1]] == [
        [
            *("index", "content", "tokens", "stop", "id_slot"),
            *("tokens_predicted", "tokens_evaluated"),
        ]
    ]
    assert "".join(partial["content"] for partial in partials) == " the sea"
    assert {partial["id_slot"] for partial in partials} == {-1}
    tokens = [token for partial in partials for token in partial["tokens"]]
    assert tokens[-1] == LANGUAGE.vocabulary.end_of_turn
    assert (final["content"], final["tokens"], final["stop"]) == ("", [], True)
    assert (final["id_slot"], final["stop_type"]) == (1, "eos")
    assert final["prompt"] == "<s>Hi"


async def test_text_completion_streams_usage_in_its_finish(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    body = {"prompt": "Hi", "max_tokens": 1, "temperature": 0, "timings_per_token": True}
    first, finish, done = await events(client, f"{target.url}/v1/completions", body)
    assert first["choices"][0] == {
        "text": " the",
        "index": 0,
        "logprobs": None,
        "finish_reason": None,
    }
    assert first["timings"]["predicted_n"] == 1
    assert finish["choices"][0]["finish_reason"] == "length"
    assert finish["usage"]["total_tokens"] == 4
    assert done == "data: [DONE]"


async def test_several_prompts_are_answered_in_order(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    prompts = [[100, 101], [100, 101, 102], "Hi"]
    body = {"prompt": prompts, "n_predict": 1, "temperature": 0, "return_tokens": True}
    _, got = await post(client, f"{target.url}/completion", body)
    assert [one["index"] for one in got] == [0, 1, 2]
    expected = [generate(LANGUAGE, prompt, max_tokens=1) for prompt in ([100, 101], prompts[1])]
    assert [one["tokens"] for one in got[:2]] == expected
    assert len(target.passes) == 1
    assert target.passes[0].num_tokens == 8


async def test_logprobs_of_accepted_tokens_are_invented(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    """The original returns 0.0 for tokens accepted from a draft; so does this one."""
    prompt = [100, 101, 102, 103]
    expected = generate(LANGUAGE, prompt, max_tokens=8)
    seed = {"prompt": prompt + expected, "n_predict": 1}
    await post(client, f"{target.url}/completion", seed)
    body = {"prompt": prompt, "n_predict": 8, "temperature": 0, "n_probs": 2}
    _, got = await post(client, f"{target.url}/completion", body)
    first, *others = got["completion_probabilities"]
    assert first["logprob"] < 0
    assert len(first["top_logprobs"]) == 2
    assert {one["logprob"] for one in others} == {0.0}
    assert got["timings"]["draft_n_accepted"] > 0


async def test_tokens_and_templates(target: ScriptedTarget, client: aiohttp.ClientSession) -> None:
    vocabulary = LANGUAGE.vocabulary
    body = {"content": "Hi 😀<|im_start|>", "with_pieces": True, "add_special": True}
    _, got = await post(client, f"{target.url}/tokenize", body)
    pieces = [one["piece"] for one in got["tokens"]]
    assert pieces == ["<s>", "H", "i", " ", [240], [159], [152], [128], "<|im_start|>"]
    ids = [one["id"] for one in got["tokens"]]
    _, got = await post(client, f"{target.url}/detokenize", {"tokens": ids})
    assert got == {"content": "<s>Hi 😀<|im_start|>"}
    _, got = await post(client, f"{target.url}/apply-template", CHAT)
    assert got == {"prompt": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"}
    _, got = await post(client, f"{target.url}/tokenize", {"content": " sea"})
    assert got == {"tokens": vocabulary.tokenize(" sea")}


async def test_a_client_that_leaves_frees_its_slot(client: aiohttp.ClientSession) -> None:
    async with ScriptedTarget(Language(mean_length=0), num_slots=1, pass_ms=1) as target:
        url = f"{target.url}/completion"
        response = await client.post(url, json={"prompt": "a", "stream": True})
        await response.content.readline()
        response.close()
        status, _ = await post(client, url, {"prompt": "b", "n_predict": 1})
        assert status == 200
        # Nobody cancelled, the first answer would have run on to the end of the context.
        assert len(target.passes) < target.engine.slots[0].n_ctx // 2


async def test_drafts_are_counted_as_measured_on_the_original(
    client: aiohttp.ClientSession,
) -> None:
    """A real server with these flags, on "a b .. j a b .. j a b c d e" and 24 more tokens, drafted
    16 tokens in its second pass and 5 in its third, all accepted."""
    letters = list(range(100, 110))
    prompt = [*letters, *letters, *letters[:5]]
    language = Language().with_script(prompt, [*letters[5:], *letters, *letters])
    async with ScriptedTarget(language, n_match=4, n_min=1, n_max=16) as target:
        body = {"prompt": prompt, "n_predict": 24, "temperature": 0, "timings_per_token": True}
        got = await events(client, f"{target.url}/completion", body)
        assert [one.drafted for one in target.passes] == [{}, {3: 16}, {3: 5}]
    counts = [one["timings"].get("draft_n_accepted") for one in got]
    assert counts == [None, *([16] * 17), *([21] * 7)]


async def test_a_held_clock_steps_pass_by_pass(client: aiohttp.ClientSession) -> None:
    async with ScriptedTarget(Language(mean_length=0)) as target:
        target.clock.hold()
        body = {"prompt": [100], "n_predict": 5, "temperature": 0}
        request = spawn(events(client, f"{target.url}/completion", body), name="answer")
        await target.clock.step(2)
        (slot,) = [slot for slot in target.engine.slots if slot.busy]
        assert slot.stats.num_predicted == 2
        assert len(target.passes) == 2
        target.clock.go()
        assert (await request)[-1]["tokens_predicted"] == 5
    assert len(target.passes) == 5


async def test_unseeded_sampling_varies_and_seeded_does_not(
    client: aiohttp.ClientSession,
) -> None:
    async with ScriptedTarget(Language(mean_length=0)) as target:
        body = {"prompt": [100], "n_predict": 40, "temperature": 1.5, "return_tokens": True}
        url = f"{target.url}/completion"
        free = [(await post(client, url, body))[1]["tokens"] for _ in range(3)]
        fixed = [(await post(client, url, {**body, "seed": 7}))[1]["tokens"] for _ in range(3)]
    assert len({tuple(tokens) for tokens in free}) == 3
    assert len({tuple(tokens) for tokens in fixed}) == 1
    assert decode(target.language.vocabulary, fixed[0])
