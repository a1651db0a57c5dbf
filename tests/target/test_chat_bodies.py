"""What the target makes of other APIs' requests, for the draft's view of the prompt."""

import json
from typing import Any

import pytest

from specproxy.pool.demo import DemoPool
from specproxy.settings import TargetSettings
from specproxy.target.chat_bodies import chat_of
from specproxy.target.client import TargetClient
from specproxy.target.deltas import Kind
from specproxy.target.tokens import TargetTokens

TOOL = {"name": "f", "description": "Does f.", "input_schema": {"type": "object"}}
CALLED = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}]}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
HI = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("kind", "body", "messages"),
    [
        ("chat", {"messages": [HI]}, [HI]),
        ("messages", {"messages": [HI]}, [HI]),
        (
            "messages",
            {
                "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "messages": [],
            },
            [{"role": "system", "content": "ab"}],
        ),
        (
            "messages",
            {"messages": [{"role": "assistant", "content": [CALLED]}]},
            [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
        ),
        (
            "messages",
            {"messages": [{"role": "user", "content": [RESULT]}]},
            [{"role": "tool", "tool_call_id": "1", "content": "ok"}],
        ),
        ("responses", {"input": "Hi"}, [HI]),
        (
            "responses",
            {"instructions": "Be short.", "input": [{**HI, "type": "message"}]},
            [{"role": "system", "content": "Be short."}, HI],
        ),
        (
            "responses",
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
            [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        ),
        (
            "responses",
            {
                "input": [
                    {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": 1}'},
                    {"type": "function_call_output", "call_id": "1", "output": "ok"},
                ]
            },
            [
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "1", "content": "ok"},
            ],
        ),
    ],
)
def test_messages(kind: Kind, body: dict[str, Any], messages: list[Any]) -> None:
    chat = chat_of(kind, body)
    assert chat is not None
    assert chat["messages"] == messages


def test_tools_and_choices() -> None:
    chat = chat_of("messages", {"messages": [HI], "tools": [TOOL], "tool_choice": {"type": "any"}})
    function = {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}
    assert chat is not None
    assert chat["tools"] == [{"type": "function", "function": function}]
    assert chat["tool_choice"] == "required"
    body = {"input": "Hi", "tools": [{"type": "function", **function}, {"type": "web_search"}]}
    chat = chat_of("responses", body)
    assert chat is not None
    assert chat["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize("kind", ["messages", "responses"])
@pytest.mark.parametrize("value", [None, 5, [5], {}, "x", [[]], [{"content": [5, None]}]])
def test_what_is_wrong_is_the_targets_to_judge(kind: Kind, value: Any) -> None:
    for body in ({"messages": value}, {"input": value}, {"messages": [], "tools": value}, {}):
        json.dumps(chat_of(kind, body))  # does not raise


@pytest.mark.real
@pytest.mark.asyncio(loop_scope="session")
async def test_the_real_target_counts_as_many_tokens(demo_pool: DemoPool) -> None:
    """Of the same messages; its own conversion adds nothing else."""
    bodies: list[dict[str, Any]] = [
        {"messages": [HI], "system": "Be short."},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi there"}]}]},
    ]
    async with TargetClient(TargetSettings(url=demo_pool.url)) as client:
        tokens = TargetTokens(client)
        for body in bodies:
            chat = chat_of("messages", body)
            assert chat is not None
            counted = await client.json("POST", "/v1/messages/count_tokens", body)
            assert counted["input_tokens"] == len(await tokens.chat_prompt(chat))
