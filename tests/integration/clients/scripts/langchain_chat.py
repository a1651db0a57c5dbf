"""LangChain's chat model for OpenAI's routes."""

from typing import Any

from langchain_openai import ChatOpenAI
from told import NUM_READ_BEFORE_LEAVING, WEATHER_TOOL, Told, run


def model(told: Told) -> ChatOpenAI:
    return ChatOpenAI(
        model="any",
        base_url=f"{told.url}/v1",
        api_key="none",
        max_retries=0,
        max_tokens=told.max_tokens,
        temperature=0,
        stream_usage=True,
    )


def chat(told: Told) -> dict[str, Any]:
    chunks = list(model(told).stream(told.messages))
    usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    return {"pieces": [chunk.text for chunk in chunks], "num_tokens": usages[-1]["output_tokens"]}


def call(told: Told) -> dict[str, Any]:
    bound = model(told).bind_tools([WEATHER_TOOL], tool_choice="required")
    (made,) = bound.invoke(told.messages).tool_calls
    return {"name": made["name"], "arguments": made["args"]}


def leave(told: Told) -> dict[str, Any]:
    stream = model(told).stream(told.messages)
    for _ in range(NUM_READ_BEFORE_LEAVING):
        next(stream)
    stream.close()
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
