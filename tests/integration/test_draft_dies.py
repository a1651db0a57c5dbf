"""The draft model dies in the middle of an answer: whoever reads it cannot tell."""

from typing import Any

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge
from specproxy.bench.workloads import PROMPTS
from specproxy.pool.demo import DemoPool
from specproxy.target.client import TargetClient

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 96
KILLED_AT_PIECE = 14
DURING, AFTER = PROMPTS[4], PROMPTS[6]  # a long answer, then any


async def test_the_answer_is_complete_and_right(
    start_proxy: Any, demo_pool: DemoPool, plain: TargetClient, judge: Judge
) -> None:
    pieces: list[str] = []
    kills: list[int] = []
    async with start_proxy(demo_pool) as proxied:

        def kill(piece: str) -> None:
            pieces.append(piece)
            is_at_work = proxied.route.observed.total.seed_s > 0
            if len(pieces) >= KILLED_AT_PIECE and is_at_work and not kills:
                assert proxied.drafter.alive
                proxied.drafter.kill()
                kills.append(len(pieces))

        during = await ask(proxied.front, DURING.messages, NUM_TOKENS, on_text=kill)
        assert not proxied.drafter.alive
        assert len(pieces) > kills[0] >= KILLED_AT_PIECE
        assert proxied.route.counts.num_seeded > 0  # it had been at work
        assert proxied.route.counts.num_answers == 1
        assert proxied.route.num_running == 0

        after = await ask(proxied.front, AFTER.messages, NUM_TOKENS)
        assert proxied.route.counts.num_answers == 1  # passed through
        status = await proxied.front.json("GET", "/specproxy/status")
        assert status["routes"][0]["draft_alive"] is False

    for prompt, answer in ((DURING, during), (AFTER, after)):
        reference = await ask(plain, prompt.messages, NUM_TOKENS)
        assert answer.finish_reason in ("length", "stop")
        assert (answer.finish_reason == "length") == (answer.num_tokens == NUM_TOKENS)
        verdict = await judge.judge(prompt.messages, NUM_TOKENS, reference=reference, answer=answer)
        assert verdict.identical, verdict
