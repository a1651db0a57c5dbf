"""Anthropic's SDK, on the target's messages route."""

from typing import Any

from anthropic import Anthropic
from told import NUM_READ_BEFORE_LEAVING, WEATHER_SCHEMA, Told, run


def asking(told: Told) -> tuple[Anthropic, dict[str, Any]]:
    sdk = Anthropic(base_url=told.url, api_key="none", max_retries=0)
    return sdk, {
        "model": "any",
        "messages": told.messages,
        "max_tokens": told.max_tokens,
        "extra_body": {"temperature": 0},
    }


def chat(told: Told) -> dict[str, Any]:
    sdk, asked = asking(told)
    with sdk.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        usage = stream.get_final_message().usage
    return {"pieces": pieces, "num_tokens": usage.output_tokens}


def call(told: Told) -> dict[str, Any]:
    sdk, asked = asking(told)
    tool = {"name": "get_weather", "description": "The weather in a city."}
    reply = sdk.messages.create(
        **asked,
        tools=[{**tool, "input_schema": WEATHER_SCHEMA}],
        tool_choice={"type": "any"},
    )
    (made,) = [block for block in reply.content if block.type == "tool_use"]
    return {"name": made.name, "arguments": made.input}


def leave(told: Told) -> dict[str, Any]:
    sdk, asked = asking(told)
    with sdk.messages.stream(**asked) as stream:
        for _ in range(NUM_READ_BEFORE_LEAVING):
            next(stream.text_stream)
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
