"""Trial answers show what a target makes of answers on its own account."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from specproxy.errors import TargetBroken, TargetUnreachable
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.trials import MESSAGES, try_chat, try_completion
from specproxy.testing import Break, CannedAnswer, Language, ScriptedTarget, StreamFault


@asynccontextmanager
async def running(
    language: Language | None = None, **flags: Any
) -> AsyncIterator[tuple[ScriptedTarget, TargetClient]]:
    async with (
        ScriptedTarget(language, **flags) as target,
        TargetClient(TargetSettings(url=target.url)) as client,
    ):
        yield target, client


async def test_a_server_without_habits() -> None:
    async with running() as (_, client):
        settings = await try_completion(client)
        assert settings is not None
        assert settings["n_predict"] == -1
        settings = await try_chat(client)
        assert settings is not None
        assert settings["stop"] == []


async def test_its_limit_shows() -> None:
    async with running(own_limit=7) as (_, client):
        settings = await try_completion(client)
        assert settings is not None
        assert settings["n_predict"] == 7


@pytest.mark.parametrize("flags", [{"shows_special": True}, {"own_limit": 1}])
async def test_an_answer_that_is_not_what_was_said(flags: dict[str, Any]) -> None:
    async with running(**flags) as (_, client):
        assert await try_completion(client) is None


async def test_reasoning_that_is_taken_apart() -> None:
    async with running(Language(thinks=True)) as (_, client):
        assert await try_completion(client) is not None
        assert await try_chat(client) is None


def chat_answer(message: dict[str, Any], **more: Any) -> bytes:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more}).encode()


SHOWN = {"__verbose": {"generation_settings": {"stop": []}}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chat_answer({"content": MESSAGES[0]}, **SHOWN), {"stop": []}),
        (chat_answer({"content": MESSAGES[0]}), None),
        (chat_answer({"content": MESSAGES[0].strip() + "."}, **SHOWN), None),
        (chat_answer({"content": "b", "reasoning_content": "a"}, **SHOWN), None),
        (chat_answer({"content": MESSAGES[0], "refusal": "no"}, **SHOWN), None),
        (b'{"choices": []}', None),
        (b"[]", None),
        (b'{"choices": [{"message": null}]}', None),
    ],
)
async def test_what_counts_as_the_same(body: bytes, expected: dict[str, Any] | None) -> None:
    async with running() as (target, client):
        target.faults.answer = CannedAnswer(200, body)
        target.faults.remaining = 1
        settings = await try_chat(client)
        assert (settings is None) == (expected is None)


async def test_a_refusal_means_that_nobody_knows() -> None:
    async with running() as (target, client):
        target.faults.answer = CannedAnswer(500, b"{}")
        assert await try_completion(client) is None
        assert await try_chat(client) is None


async def test_a_target_that_fails_is_told() -> None:
    async with running() as (target, client):
        target.faults.stream = StreamFault(Break.RESET)
        with pytest.raises(TargetBroken):
            await try_completion(client)
        await target.down()
        with pytest.raises(TargetUnreachable):
            await try_chat(client)
