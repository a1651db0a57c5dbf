"""Other people's clients before the proxy on a real pool: they get what the target alone gives."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge
from specproxy.target.client import TargetClient
from specproxy.testing import until
from tests.integration.clients.conftest import Run
from tests.integration.clients.environments import Environment

pytestmark = [pytest.mark.clients, pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 24
NUM_ENDLESS = 2000
QUESTION = "Describe a lighthouse in winter, as {} would."
WEATHER = "What is the weather in Paris?"
STORY = "Tell {} a very long story about a fox, a river and a village, with many chapters."
LEFT_WITHIN_S = 5.0


async def test_a_streamed_chat(
    client: Environment, run_client: Run, proxied: Any, plain: TargetClient, judge: Judge
) -> None:
    text = QUESTION.format(client)  # no prompt is asked twice of one pool
    messages = [{"role": "user", "content": text}]
    async with run_client(client, proxied.url, "chat", text, NUM_TOKENS) as got:
        pieces = got["pieces"]
    reference = await ask(plain, messages, NUM_TOKENS)
    num_tokens = got.get("num_tokens", reference.num_tokens)
    answer = replace(reference, text="".join(pieces), num_tokens=num_tokens)
    verdict = await judge.judge(messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict
    assert len([piece for piece in pieces if piece]) > NUM_TOKENS / 3  # it came as a stream


async def test_a_tool_call(
    client: Environment, run_client: Run, calling: str, calling_alone: str
) -> None:
    async with run_client(client, calling, "call", WEATHER, NUM_TOKENS * 4) as got:
        pass
    async with run_client(client, calling_alone, "call", WEATHER, NUM_TOKENS * 4) as right:
        pass
    assert got == right
    assert got == {"name": "get_weather", "arguments": {"city": "Paris"}}


async def until_no_slot_is_busy(front: TargetClient) -> None:
    """llama-server looks at who has left between two passes."""
    async with asyncio.timeout(LEFT_WITHIN_S):
        while True:
            slots = await front.json("GET", "/slots")
            if not any(slot["is_processing"] for slot in slots):
                return
            await asyncio.sleep(0.05)


async def test_leaving_frees_the_slot(client: Environment, run_client: Run, proxied: Any) -> None:
    """While the client lives on, so that it is not its death that ends the answer."""
    num_before = await num_cancelled(proxied.front)
    text = STORY.format(client)
    async with run_client(client, proxied.url, "leave", text, NUM_ENDLESS):
        await until(lambda: proxied.route.is_at_rest, timeout_s=LEFT_WITHIN_S)
        await until_no_slot_is_busy(proxied.front)
        assert await num_cancelled(proxied.front) == num_before + 1


async def num_cancelled(front: TargetClient) -> float:
    """Answers that were left so far."""
    async with front.request("GET", "/metrics") as reply:
        text = b"".join([chunk async for chunk in front.chunks(reply)]).decode()
    return sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("specproxy_requests_total") and 'outcome="cancelled"' in line
    )
