"""Fan-out on a real llama-server that has slots to spare, and what the probe says of it."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import pytest_asyncio

from specproxy.core.fanout import HeldPrefixes
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.probe.measure import measure
from specproxy.probe.verdicts import best
from specproxy.route import Mode
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.fanout import ask

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

PROMPTS = (
    "The three primary colours are",
    "Question: What is the capital of France? Answer:",
    "Once upon a time there was a lighthouse keeper who",
)
PENALTIES = {"repeat_penalty": 1.2, "presence_penalty": 0.3, "dry_multiplier": 0.5}
NUM_TOKENS = 24

StartProxy = Callable[[DemoPool], AbstractAsyncContextManager[Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spare_pool(binaries: LlamaBinaries, demo_models: DemoModels) -> AsyncIterator[DemoPool]:
    """A target without any speculation and with slots to spare."""
    options = PoolOptions(rtt_ms=0.0, mode="slots")
    async with DemoPool(binaries, demo_models, options) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spare(spare_pool: DemoPool) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=spare_pool.url)) as client:
        yield client


async def test_slots_keep_what_they_have_read(spare: TargetClient) -> None:
    generator = random.Random(3)
    prompt = [generator.randrange(2000, 40000) for _ in range(40)]
    prompts = [[*prompt, *range(3000, 3000 + count)] for count in range(5)]
    held = HeldPrefixes(5)
    await ask(spare, prompts, {"temperature": 0})
    held.placed(len(prompt), 4, 2)
    longer = [*prompt, 3000, 3001, 9]
    prompts = [[*longer, *range(5000, 5000 + count)] for count in range(5)]
    second = await ask(spare, prompts, {"temperature": 0})
    assert second.num_rows == held.rows(len(longer), 4)


@pytest.mark.parametrize("sampling", [{}, PENALTIES], ids=["plain", "penalties"])
async def test_rounds_say_what_the_target_says_alone(
    spare_pool: DemoPool, spare: TargetClient, start_proxy: StartProxy, sampling: dict[str, Any]
) -> None:
    """One of three may differ: the shape of a batch can tip a near-tie."""
    num_equal = 0
    async with start_proxy(spare_pool) as proxied:
        assert proxied.route.mode is Mode.FANOUT
        for prompt in PROMPTS:
            body = {"prompt": prompt, "temperature": 0, "n_predict": NUM_TOKENS, **sampling}
            got = await proxied.front.json("POST", "/completion", body)
            alone = await spare.json("POST", "/completion", body)
            num_equal += got["content"] == alone["content"]
            assert set(got) == set(alone)
            assert set(got["generation_settings"]) == set(alone["generation_settings"])
            assert got["generation_settings"] == alone["generation_settings"]
            assert got["prompt"] == alone["prompt"]
        assert proxied.route.counts.num_answers == len(PROMPTS)
        assert proxied.route.counts.num_accepted > 0
    assert num_equal >= len(PROMPTS) - 1


async def test_chats_are_what_the_target_makes_of_them(
    spare_pool: DemoPool, spare: TargetClient, start_proxy: StartProxy
) -> None:
    """As above; its template is plain, and a trial says so."""
    num_equal = 0
    async with start_proxy(spare_pool) as proxied:
        for prompt in PROMPTS:
            messages = [{"role": "user", "content": prompt}]
            body = {"messages": messages, "temperature": 0, "max_tokens": NUM_TOKENS}
            got = await proxied.front.json("POST", "/v1/chat/completions", body)
            alone = await spare.json("POST", "/v1/chat/completions", body)
            num_equal += got["choices"] == alone["choices"]
            assert set(got) == set(alone)
        assert proxied.route.counts.num_answers == len(PROMPTS)
    assert num_equal >= len(PROMPTS) - 1


async def test_the_probe_names_it(spare_pool: DemoPool, spare: TargetClient) -> None:
    report = await measure(spare, spare_pool.url, random.Random(2), lambda _: None)
    assert best(report).way == "fanout"
    assert report.shares_passes
    assert not report.lacking
