"""LiteLLM's SDK, which takes the proxy for any server that speaks as OpenAI's does."""

import json
import os
from typing import Any

from told import NUM_READ_BEFORE_LEAVING, WEATHER_TOOL, Told, run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the internet for prices
import litellm


def completed(told: Told, **more: Any) -> Any:
    return litellm.completion(
        model="openai/any",
        api_base=f"{told.url}/v1",
        api_key="none",
        max_retries=0,
        messages=told.messages,
        max_tokens=told.max_tokens,
        temperature=0,
        **more,
    )


def chat(told: Told) -> dict[str, Any]:
    chunks = list(completed(told, stream=True, stream_options={"include_usage": True}))
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    (usage,) = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    return {"pieces": pieces, "num_tokens": usage.completion_tokens}


def call(told: Told) -> dict[str, Any]:
    reply = completed(told, tools=[WEATHER_TOOL], tool_choice="required")
    (made,) = reply.choices[0].message.tool_calls
    return {"name": made.function.name, "arguments": json.loads(made.function.arguments)}


def leave(told: Told) -> dict[str, Any]:
    stream = completed(told, stream=True)
    for _ in range(NUM_READ_BEFORE_LEAVING):
        next(stream)
    stream.close()
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
