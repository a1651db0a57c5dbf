"""Chats through the proxy on a real pool are the target's own, and they are sped up.

No prompt is asked twice: the pool learns its own answers, and would then need no draft.
"""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from specproxy.bench.answers import CHAT_PATH, ask, chat_body
from specproxy.bench.judge import Judge
from specproxy.bench.stats import Answer
from specproxy.bench.workloads import PROMPTS, Prompt
from specproxy.core.stats import DraftCounts
from specproxy.route import Route
from specproxy.target.client import JSON_HEADERS, TargetClient

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 32
STREAMED, WHOLE = PROMPTS[:2], PROMPTS[9:11]
SIDE_BY_SIDE = PROMPTS[12:14]


async def whole(client: TargetClient, prompt: Prompt) -> tuple[dict[str, Any], str]:
    """The answer to a client that wants no stream, and what the proxy says it did."""
    body = {**chat_body(prompt.messages, NUM_TOKENS), "stream": False}
    del body["stream_options"]
    async with client.request(
        "POST", CHAT_PATH, headers=JSON_HEADERS, data=json.dumps(body).encode()
    ) as response:
        assert response.status == 200
        text = b"".join([chunk async for chunk in client.chunks(response)])
        return json.loads(text), response.headers["x-specproxy-mode"]


async def assert_same(judge: Judge, prompt: Prompt, reference: Answer, answer: Answer) -> None:
    verdict = await judge.judge(prompt.messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict


def grown(route: Route, before: DraftCounts) -> DraftCounts:
    """What the route has counted since."""
    now = route.counts
    return DraftCounts(
        num_seeded=now.num_seeded - before.num_seeded,
        num_pooled=now.num_pooled - before.num_pooled,
        num_accepted=now.num_accepted - before.num_accepted,
        num_generated=now.num_generated - before.num_generated,
        num_answers=now.num_answers - before.num_answers,
    )


async def test_streams_are_the_targets_and_are_sped_up(
    proxied: Any, plain: TargetClient, judge: Judge
) -> None:
    before = replace(proxied.route.counts)
    for prompt in STREAMED:
        pieces: list[str] = []
        answer = await ask(proxied.front, prompt.messages, NUM_TOKENS, on_text=pieces.append)
        reference = await ask(plain, prompt.messages, NUM_TOKENS)
        await assert_same(judge, prompt, reference, answer)
        assert len(pieces) > NUM_TOKENS / 2  # it came as a stream
    counts = grown(proxied.route, before)
    assert counts.num_answers == len(STREAMED)
    assert counts.num_seeded > 0
    assert counts.num_pooled > 0
    assert counts.num_accepted > 0


async def test_whole_answers_are_the_targets_and_are_sped_up(
    proxied: Any, plain: TargetClient, judge: Judge
) -> None:
    before = replace(proxied.route.counts)
    for prompt in WHOLE:
        reply, mode = await whole(proxied.front, prompt)
        assert mode == "seeding"
        assert reply["object"] == "chat.completion"
        (choice,) = reply["choices"]
        num_tokens = reply["usage"]["completion_tokens"]
        reference = await ask(plain, prompt.messages, NUM_TOKENS)
        answer = replace(reference, text=choice["message"]["content"], num_tokens=num_tokens)
        await assert_same(judge, prompt, reference, answer)
        assert choice["finish_reason"] in ("length", "stop")
        assert (choice["finish_reason"] == "length") == (num_tokens == NUM_TOKENS)
    counts = grown(proxied.route, before)
    assert counts.num_answers == len(WHOLE)
    assert counts.num_accepted > 0


async def test_two_at_once_do_not_mix(proxied: Any, plain: TargetClient, judge: Judge) -> None:
    before = replace(proxied.route.counts)
    answers = await asyncio.gather(
        *(ask(proxied.front, prompt.messages, NUM_TOKENS) for prompt in SIDE_BY_SIDE)
    )
    for prompt, answer in zip(SIDE_BY_SIDE, answers, strict=True):
        reference = await ask(plain, prompt.messages, NUM_TOKENS)
        await assert_same(judge, prompt, reference, answer)
    assert grown(proxied.route, before).num_answers == len(SIDE_BY_SIDE)
    assert (proxied.route.num_running, proxied.route.num_waiting) == (0, 0)
