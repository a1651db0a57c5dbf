"""OpenAI's own client finds nothing amiss."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from specproxy.testing import Break, Language, StreamFault
from specproxy.testing.rig import Rig, proxied

if TYPE_CHECKING:
    import openai

TEXT = "Hello world 😀, the lighthouse"
THOUGHT = "<think>\n the sea</think>\n\nHello world"
LANGUAGE = (
    Language(thinks=True)
    .with_script("Hi", TEXT, chat=True)
    .with_script("Think", THOUGHT, chat=True)
    .with_script("Hi", TEXT)
)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with proxied(LANGUAGE, settings={"listen": {"api_key": "client-key"}}) as running:
        yield running


@pytest.fixture
async def client(rig: Rig) -> "AsyncIterator[openai.AsyncOpenAI]":
    import openai  # (half a second, of whoever collects this file)

    url = f"{rig.server.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="client-key", max_retries=0) as made:
        yield made


async def test_chat(client: "openai.AsyncOpenAI") -> None:
    messages = [{"role": "user", "content": "Hi"}]
    got = await client.chat.completions.create(model="toy", messages=messages, temperature=0)
    assert got.choices[0].message.content == TEXT
    assert got.choices[0].finish_reason == "stop"
    assert got.usage is not None
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens


async def test_chat_stream(client: "openai.AsyncOpenAI") -> None:
    stream = await client.chat.completions.create(
        model="toy",
        messages=[{"role": "user", "content": "Think"}],
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Hello world"
    thoughts = [getattr(delta, "reasoning_content", None) or "" for delta in deltas]
    assert "".join(thoughts) == " the sea"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 4
    assert len({chunk.id for chunk in chunks}) == 1


async def test_completions(client: "openai.AsyncOpenAI") -> None:
    got = await client.completions.create(model="toy", prompt="Hi", temperature=0)
    assert got.choices[0].text == TEXT
    stream = await client.completions.create(model="toy", prompt="Hi", temperature=0, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == TEXT


async def test_models(client: "openai.AsyncOpenAI") -> None:
    models = await client.models.list()
    assert [model.id for model in models.data] == ["toy-model"]


async def test_errors_are_its_own_kinds(rig: Rig, client: "openai.AsyncOpenAI") -> None:
    import openai

    wrong = client.with_options(api_key="wrong")
    with pytest.raises(openai.AuthenticationError, match=r"listen\.api_key"):
        await wrong.models.list()
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="toy", messages=[{"content": "x"}])  # type: ignore[list-item]
    await rig.target.down()
    with pytest.raises(openai.InternalServerError, match="llama-server"):
        await client.models.list()


async def test_a_broken_stream_raises(rig: Rig, client: "openai.AsyncOpenAI") -> None:
    import openai

    rig.target.faults.stream = StreamFault(Break.CUT, after_events=3)
    messages = [{"role": "user", "content": "Hi"}]
    stream = await client.chat.completions.create(model="toy", messages=messages, stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        _ = [chunk async for chunk in stream]
