"""OpenAI's own client, streaming and not."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from specproxy.testing import Language
from specproxy.testing.coordinator import ScriptedCoordinator

if TYPE_CHECKING:
    import openai

MODEL = "toy-model"
LANGUAGE = Language().with_script("Say it", "The old stone fell.", chat=True)


@pytest.fixture
async def sdk() -> "AsyncIterator[openai.AsyncOpenAI]":
    import openai  # (half a second, of whoever collects this file)

    async with (
        ScriptedCoordinator(LANGUAGE, api_key="key") as coordinator,
        openai.AsyncOpenAI(
            base_url=f"{coordinator.url}/v1", api_key="key", max_retries=0
        ) as client,
    ):
        yield client


async def test_a_whole_answer(sdk: "openai.AsyncOpenAI") -> None:
    answer = await sdk.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say it"}],
        temperature=0,
        logprobs=True,
        top_logprobs=2,
    )
    assert answer.choices[0].message.content == "The old stone fell."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_a_stream_with_usage(sdk: "openai.AsyncOpenAI") -> None:
    stream = await sdk.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say it"}],
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "The old stone fell."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None


async def test_text_completions(sdk: "openai.AsyncOpenAI") -> None:
    whole = await sdk.completions.create(model=MODEL, prompt="The sea", max_tokens=9, temperature=0)
    stream = await sdk.completions.create(
        model=MODEL, prompt="The sea", max_tokens=9, temperature=0, stream=True
    )
    text = "".join([chunk.choices[0].text async for chunk in stream])
    assert text == whole.choices[0].text
    assert whole.choices[0].finish_reason == "length"


async def test_models_and_errors(sdk: "openai.AsyncOpenAI") -> None:
    import openai

    assert [model.id async for model in sdk.models.list()] == [MODEL]
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await sdk.chat.completions.create(model=MODEL, messages=[], temperature="hot")  # type: ignore[arg-type]
    with pytest.raises(openai.InternalServerError, match="embeddings"):
        await sdk.embeddings.create(model=MODEL, input="x")
    with pytest.raises(openai.AuthenticationError):
        await sdk.with_options(api_key="wrong").models.list()
