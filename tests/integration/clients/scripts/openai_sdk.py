"""OpenAI's SDK."""

import json
from typing import Any

from openai import OpenAI
from told import NUM_READ_BEFORE_LEAVING, WEATHER_TOOL, Told, run


def created(told: Told, **more: Any) -> Any:
    sdk = OpenAI(base_url=f"{told.url}/v1", api_key="none", max_retries=0)
    return sdk.chat.completions.create(
        model="any", messages=told.messages, max_tokens=told.max_tokens, temperature=0, **more
    )


def chat(told: Told) -> dict[str, Any]:
    stream = created(told, stream=True, stream_options={"include_usage": True})
    *spoken, last = list(stream)
    pieces = [chunk.choices[0].delta.content or "" for chunk in spoken]
    return {"pieces": pieces, "num_tokens": last.usage.completion_tokens}


def call(told: Told) -> dict[str, Any]:
    reply = created(told, tools=[WEATHER_TOOL], tool_choice="required")
    (made,) = reply.choices[0].message.tool_calls
    return {"name": made.function.name, "arguments": json.loads(made.function.arguments)}


def leave(told: Told) -> dict[str, Any]:
    stream = created(told, stream=True)
    for _ in range(NUM_READ_BEFORE_LEAVING):
        next(stream)
    stream.close()
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
