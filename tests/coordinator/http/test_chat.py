"""Chat messages: reasoning, tool calls, prefilled answers, structured answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from specproxy.testing import Language
from specproxy.testing.chat import TEMPLATE
from specproxy.testing.coordinator import ScriptedCoordinator
from tests.coordinator.http.conftest import ask

HERMES = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] or '' }}"
    "{% for call in message['tool_calls'] or [] %}<tool_call>\n"
    '{"name": "{{ call["function"]["name"] }}", "arguments": '
    '{{ call["function"]["arguments"] | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}"
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "<tool_call></tool_call>{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = TEMPLATE + "{# <think></think> #}"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
HI = [{"role": "user", "content": "Hi"}]


@asynccontextmanager
async def answering(
    output: str, body: dict[str, Any], *, template: str = TEMPLATE, tokens_per_step: int = 3
) -> AsyncIterator[str]:
    """The URL of a coordinator whose model answers `body` with `output`."""
    async with ScriptedCoordinator(template=template) as plain, aiohttp.ClientSession() as client:
        prompt = (await ask(client, plain.url, "/apply-template", body)).content["prompt"]
    async with ScriptedCoordinator(
        Language().with_script(prompt, output), template=template, tokens_per_step=tokens_per_step
    ) as coordinator:
        yield coordinator.url


async def both_ways(
    client: aiohttp.ClientSession, url: str, body: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """(the whole answer's message, the stream's deltas, the finish reason of both)."""
    body = {"temperature": 0, **body}
    whole = (await ask(client, url, "chat", body)).content["choices"][0]
    stream = (await ask(client, url, "chat", {**body, "stream": True})).content
    choices = [chunk["choices"][0] for chunk in stream if chunk != "[DONE]"]
    assert choices[-1]["finish_reason"] == whole["finish_reason"]
    return whole["message"], [choice["delta"] for choice in choices], whole["finish_reason"]


@pytest.mark.parametrize("tokens_per_step", [1, 4, 100])
async def test_tool_calls(client: aiohttp.ClientSession, tokens_per_step: int) -> None:
    body = {"messages": HI, "tools": [TOOL]}
    output = f"I look. {CALL}"
    async with answering(output, body, template=HERMES, tokens_per_step=tokens_per_step) as url:
        message, deltas, reason = await both_ways(client, url, body)
    assert reason == "tool_calls"
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Köln"}
    assert message["content"].strip() == "I look."
    parts = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert parts[0]["function"]["name"] == "weather"
    arguments = "".join(part["function"].get("arguments", "") for part in parts)
    assert arguments == call["function"]["arguments"]
    assert "".join(delta.get("content") or "" for delta in deltas) == message["content"]


async def test_the_sdk_reads_tool_calls() -> None:
    import openai  # (half a second, of whoever collects this file)

    body = {"messages": HI, "tools": [TOOL]}
    async with (
        answering(CALL + CALL, body, template=HERMES) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk,
        sdk.chat.completions.stream(
            model="toy-model",
            messages=[{"role": "user", "content": "Hi"}],
            tools=[TOOL],  # type: ignore[list-item]
            temperature=0,
        ) as stream,
    ):
        completion = await stream.get_final_completion()
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.name for call in calls] == ["weather", "weather"]
    assert len({call.id for call in calls}) == 2
    assert completion.choices[0].finish_reason == "tool_calls"


async def test_no_tools_no_calls(client: aiohttp.ClientSession) -> None:
    body = {"messages": HI, "tools": [TOOL], "tool_choice": "none"}
    async with answering(CALL, body, template=HERMES) as url:
        message, _, reason = await both_ways(client, url, body)
    assert (message["content"], reason) == (CALL, "stop")
    assert "tool_calls" not in message


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [TOOL], "grammar": 'root ::= "a"'},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"tools": "weather"},
        {"tools": [TOOL], "logprobs": True, "stream": True},
        {"response_format": {"type": "yaml"}},
        {"tool_choice": "required"},
    ],
)
async def test_contradictions_are_refused(
    client: aiohttp.ClientSession, more: dict[str, Any]
) -> None:
    async with ScriptedCoordinator(template=HERMES) as coordinator:
        reply = await ask(client, coordinator.url, "chat", {"messages": HI, **more})
    assert reply.status == 400


async def test_tools_of_a_model_whose_calls_are_not_known(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator() as coordinator:
        reply = await ask(client, coordinator.url, "chat", {"messages": HI, "tools": [TOOL]})
    assert reply.status == 400
    assert "tool" in reply.content["error"]["message"]


@pytest.mark.parametrize("reasoning_format", [None, "none"])
async def test_reasoning_is_told_from_content(
    client: aiohttp.ClientSession, reasoning_format: str | None
) -> None:
    body: dict[str, Any] = {"messages": HI, "reasoning_format": reasoning_format}
    output = "<think>The sea is deep.</think>It is."
    async with answering(output, body, template=THINKING) as url:
        message, deltas, _ = await both_ways(client, url, body)
    joined = {
        key: "".join(delta.get(key) or "" for delta in deltas)
        for key in ("reasoning_content", "content")
    }
    if reasoning_format is None:
        assert message["reasoning_content"].strip() == "The sea is deep."
        assert message["content"] == "It is."
    else:
        assert message["content"] == output
    assert joined["content"] == message["content"]
    assert joined["reasoning_content"] == message.get("reasoning_content", "")


async def test_a_begun_answer_is_continued_and_shown_whole(client: aiohttp.ClientSession) -> None:
    begun = [*HI, {"role": "assistant", "content": "The sea"}]
    async with answering(" is deep.", {"messages": begun}) as url:
        message, deltas, _ = await both_ways(client, url, {"messages": begun})
        assert message["content"] == "The sea is deep."
        assert "".join(delta.get("content") or "" for delta in deltas) == "The sea is deep."
        asked = {"messages": begun, "continue_final_message": True, "add_generation_prompt": False}
        message, deltas, _ = await both_ways(client, url, asked)
        assert message["content"] == "The sea is deep."
        assert "".join(delta.get("content") or "" for delta in deltas) == " is deep."


async def test_the_grammar_of_a_schema_reaches_the_engine(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator() as coordinator:
        wanted = {"type": "json_schema", "json_schema": {"schema": {"type": "boolean"}}}
        body = {"messages": HI, "response_format": wanted, "verbose": True, "max_tokens": 1}
        async with client.post(f"{coordinator.url}/v1/chat/completions", json=body) as response:
            verbose = (await response.json())["__verbose"]
    assert "true" in verbose["generation_settings"]["grammar"]
