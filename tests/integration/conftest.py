"""The whole thing with real parts: a pool that takes seeds, a draft model, the proxy before them.

Beside it stands the same target without speculation: it says what is right. All of it lives on the
session's event loop, and so must the tests that use it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio
from rich.console import Console

from specproxy.bench.judge import Judge
from specproxy.draft.engine import LlamaDrafter
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.progress import Step
from specproxy.route import Route
from specproxy.serve import proxy, speculating
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient


@dataclass(frozen=True, slots=True)
class Proxied:
    """A proxy that seeds its pool.

    Attributes:
        front: what a client talks to.
    """

    url: str
    front: TargetClient
    route: Route
    drafter: LlamaDrafter


@asynccontextmanager
async def proxied_pool(pool: DemoPool) -> AsyncIterator[Proxied]:
    """A proxy with a draft model of its own before `pool`, once it seeds."""
    settings = load(
        None,
        target={"url": pool.url},
        listen={"host": "127.0.0.1", "port": 0},
        draft={"model": str(pool.draft_model)},
    )
    drafter = await asyncio.to_thread(
        LlamaDrafter, pool.draft_model, num_sequences=4, context_tokens=4096
    )
    try:
        async with proxy(settings, drafter) as server:
            with Step(Console(quiet=True), "learning") as step:
                await speculating(server.route, step)
            async with TargetClient(TargetSettings(url=server.url)) as front:
                yield Proxied(server.url, front, server.route, drafter)
    finally:
        await drafter.aclose()


@pytest.fixture(scope="session")
def start_proxy() -> Callable[[DemoPool], AbstractAsyncContextManager[Proxied]]:
    """For a proxy of one's own."""
    return proxied_pool


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def proxied(demo_pool: DemoPool) -> AsyncIterator[Proxied]:
    async with proxied_pool(demo_pool) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plain_pool(binaries: LlamaBinaries, demo_models: DemoModels) -> AsyncIterator[DemoPool]:
    """The same target without any speculation."""
    async with DemoPool(binaries, demo_models, PoolOptions(rtt_ms=0.0, mode="plain")) as pool:
        yield pool


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plain(plain_pool: DemoPool) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=plain_pool.url)) as client:
        yield client


@pytest.fixture(scope="session")
def judge(plain: TargetClient) -> Judge:
    """Says whether an answer is the plain target's, near-ties apart."""
    return Judge(plain)
