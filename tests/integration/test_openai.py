"""OpenAI's own SDK against the proxy on a real pool."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge
from specproxy.bench.stats import Answer
from specproxy.bench.workloads import PROMPTS
from specproxy.target.client import TargetClient

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 24
STREAMED, WHOLE = PROMPTS[2], PROMPTS[8]


async def assert_same(
    judge: Judge, messages: Any, reference: Answer, text: str | None, num_tokens: int
) -> None:
    answer = replace(reference, text=text or "", num_tokens=num_tokens)
    verdict = await judge.judge(messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict


async def test_a_stream_with_usage(proxied: Any, plain: TargetClient, judge: Judge) -> None:
    from openai import AsyncOpenAI  # (half a second, of whoever collects this file)

    messages: Any = STREAMED.messages
    async with AsyncOpenAI(base_url=f"{proxied.url}/v1", api_key="none", max_retries=0) as sdk:
        stream = await sdk.chat.completions.create(
            model="any",
            messages=messages,
            max_tokens=NUM_TOKENS,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    assert len(chunks) > NUM_TOKENS / 2
    *spoken, last = chunks
    text = "".join(chunk.choices[0].delta.content or "" for chunk in spoken)
    assert [chunk.choices[0].finish_reason for chunk in spoken if chunk.choices][-1] == "length"
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == NUM_TOKENS
    assert last.usage.total_tokens == last.usage.prompt_tokens + NUM_TOKENS
    reference = await ask(plain, messages, NUM_TOKENS)
    assert last.usage.prompt_tokens == reference.num_prompt
    await assert_same(judge, messages, reference, text, NUM_TOKENS)


async def test_a_whole_answer(proxied: Any, plain: TargetClient, judge: Judge) -> None:
    from openai import OpenAI

    messages: Any = WHOLE.messages

    def create() -> Any:
        with OpenAI(base_url=f"{proxied.url}/v1", api_key="none", max_retries=0) as sdk:
            return sdk.chat.completions.create(
                model="any", messages=messages, max_tokens=NUM_TOKENS, temperature=0
            )

    reply = await asyncio.to_thread(create)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == NUM_TOKENS
    reference = await ask(plain, messages, NUM_TOKENS)
    await assert_same(judge, messages, reference, reply.choices[0].message.content, NUM_TOKENS)


async def test_the_models_are_the_targets(proxied: Any, plain: TargetClient) -> None:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{proxied.url}/v1", api_key="none", max_retries=0) as sdk:
        names = [model.id async for model in sdk.models.list()]
    models = await plain.json("GET", "/v1/models")
    assert names == [model["id"] for model in models["data"]]
