"""Greedy equality on a few hundred short chats: the coordinator with drafts, llama-server without.

No workers and no link: what is compared is what is said. Near-ties are counted, not hidden.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge, Verdict
from specproxy.draft.engine import LlamaDrafter
from specproxy.pool.coordinator import Coordinator
from specproxy.pool.models import DemoModels
from specproxy.route import Mode
from specproxy.serve import proxy
from specproxy.settings import CoordinatorSettings, TargetSettings, load
from specproxy.target.client import TargetClient
from specproxy.testing import until

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]
NUM_TOKENS = 12
AT_A_TIME = 4
TASKS = (
    "Explain {} to a child.",
    "Write one line of a poem on {}.",
    "Name three facts about {}.",
    "Translate '{}' into French.",
    "Is {} old? Answer yes or no, then why.",
    'Return JSON with the keys "topic" and "mood" for {}.',
    "Write a Python function named after {}.",
    "Continue: the history of {} begins",
)
TOPICS = (
    *("the sea", "rain", "copper", "bread", "a lighthouse", "chess", "the number seven", "tea"),
    *("Mars", "a violin", "snow", "an old clock", "the wind", "salt", "a railway", "honey"),
    *("a mirror", "the Nile", "glass", "wool", "a harbour", "maps", "thunder", "a bridge"),
    *("coffee", "silk"),
)
PROMPTS = tuple(task.format(topic) for task, topic in itertools.product(TASKS, TOPICS))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def coordinated(demo_models: DemoModels) -> AsyncIterator[TargetClient]:
    """The proxy before a coordinator that has no workers."""
    settings = CoordinatorSettings(model=demo_models.target, context_tokens=4096, warm="never")
    drafter = await asyncio.to_thread(LlamaDrafter, demo_models.draft, num_sequences=8)
    try:
        async with Coordinator(settings) as coordinator:
            target = {"url": coordinator.url, "api_key": coordinator.key}
            options = load(None, target=target, listen={"port": 0})
            async with proxy(options, drafter) as server:
                await until(lambda: server.route.mode is Mode.COORDINATOR, timeout_s=60)
                async with TargetClient(TargetSettings(url=server.url)) as front:
                    yield front
    finally:
        await drafter.aclose()


@pytest.mark.timeout(900)
async def test_every_short_chat_is_the_targets_own(
    coordinated: TargetClient, plain: TargetClient, judge: Judge
) -> None:
    num_ties = 0
    for first in range(0, len(PROMPTS), AT_A_TIME):
        texts = PROMPTS[first : first + AT_A_TIME]
        verdicts = await asyncio.gather(*(_compare(coordinated, plain, judge, t) for t in texts))
        assert all(verdict.identical for verdict in verdicts), dict(
            zip(texts, verdicts, strict=True)
        )
        num_ties += sum(len(verdict.ties) for verdict in verdicts)
    print(f"{len(PROMPTS)} chats, {num_ties} ties")
    assert num_ties < len(PROMPTS) / 20


async def _compare(front: TargetClient, plain: TargetClient, judge: Judge, text: str) -> Verdict:
    messages = [{"role": "user", "content": text}]
    got = await ask(front, messages, NUM_TOKENS)
    alone = await ask(plain, messages, NUM_TOKENS)
    return await judge.judge(messages, NUM_TOKENS, reference=alone, answer=got)
