"""An agent of Pydantic AI, on chat completions."""

import asyncio
from typing import Any, Literal

from pydantic_ai import Agent, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from told import NUM_READ_BEFORE_LEAVING, Told, run


def agent(told: Told, **more: Any) -> Agent[None, Any]:
    provider = OpenAIProvider(base_url=f"{told.url}/v1", api_key="none")
    return Agent(
        OpenAIChatModel("any", provider=provider),
        model_settings={"temperature": 0, "max_tokens": told.max_tokens},
        **more,
    )


def chat(told: Told) -> dict[str, Any]:
    async def read() -> list[str]:
        async with agent(told).run_stream(told.text) as result:
            return [text async for text in result.stream_text(delta=True, debounce_by=None)]

    return {"pieces": asyncio.run(read())}


def call(told: Told) -> dict[str, Any]:
    """Its typed answers are calls of a tool that the model must make."""

    def get_weather(city: Literal["Paris", "Oslo"]) -> dict[str, Any]:
        """The weather in a city."""
        return {"name": "get_weather", "arguments": {"city": city}}

    output = ToolOutput(get_weather, name="get_weather")
    result: dict[str, Any] = agent(told, output_type=output).run_sync(told.text).output
    return result


def leave(told: Told) -> dict[str, Any]:
    async def read() -> None:
        async with agent(told).run_stream(told.text) as result:
            num_read = 0
            async for _ in result.stream_text(delta=True, debounce_by=None):
                num_read += 1
                if num_read == NUM_READ_BEFORE_LEAVING:
                    break

    asyncio.run(read())
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
