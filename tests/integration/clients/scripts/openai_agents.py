"""OpenAI's agents, on chat completions."""

import asyncio
import json
from typing import Any, Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from told import NUM_READ_BEFORE_LEAVING, Told, run


def agent(told: Told, **more: Any) -> Agent[None]:
    set_tracing_disabled(True)
    sdk = AsyncOpenAI(base_url=f"{told.url}/v1", api_key="none", max_retries=0)
    tool_choice = "required" if "tools" in more else None
    return Agent(
        name="specproxy's guest",
        model=OpenAIChatCompletionsModel(model="any", openai_client=sdk),
        model_settings=ModelSettings(
            temperature=0, max_tokens=told.max_tokens, tool_choice=tool_choice
        ),
        **more,
    )


def chat(told: Told) -> dict[str, Any]:
    async def read() -> list[str]:
        result = Runner.run_streamed(agent(told), told.text)
        return [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]

    return {"pieces": asyncio.run(read())}


def call(told: Told) -> dict[str, Any]:
    made: list[dict[str, Any]] = []

    @function_tool
    def get_weather(city: Literal["Paris", "Oslo"]) -> str:
        """The weather in a city."""
        made.append({"name": "get_weather", "arguments": {"city": city}})
        return json.dumps({"weather": "sunny"})

    caller = agent(told, tools=[get_weather], tool_use_behavior="stop_on_first_tool")
    asyncio.run(Runner.run(caller, told.text))
    (only,) = made
    return only


def leave(told: Told) -> dict[str, Any]:
    async def read() -> None:
        result = Runner.run_streamed(agent(told), told.text)
        num_read = 0
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                num_read += event.data.type == "response.output_text.delta"
            if num_read == NUM_READ_BEFORE_LEAVING:
                result.cancel()

    asyncio.run(read())
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
