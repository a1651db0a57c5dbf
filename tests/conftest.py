"""Real parts for tests marked `real`: llama.cpp, the demo's models, a pool on loopback.

They must be there already (`make setup`); a test never compiles or downloads.
"""

import gc
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from specproxy.errors import SetupError
from specproxy.pool.binaries import LlamaBinaries, find_binaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels, find_models
from tests.tiny_mamba import write_mamba


def pytest_configure() -> None:
    """What tests start begins with SIGINT as in a terminal: shells have it ignored for what runs in
    the background, and children inherit that.

    Tracebacks in the log of a test that failed are plain: the rich ones take 0.1 s each.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    plain = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage shall walk it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Who sets up the log leaves it to the next test as it was; its stderr will be closed."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def binaries() -> LlamaBinaries:
    """llama.cpp's tools."""
    return find_binaries()


@pytest.fixture(scope="session")
def demo_models() -> DemoModels:
    """SmolLM2 as target (F16) and draft (Q4_1)."""
    models = find_models()
    if models is None:
        raise SetupError("The demo's models are missing.", remedy="Run `make setup`.")
    return models


@pytest.fixture(scope="session")
def recurrent_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose cache can forget or share no part of a sequence."""
    return write_mamba(tmp_path_factory.mktemp("recurrent") / "mamba.gguf")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo_pool(binaries: LlamaBinaries, demo_models: DemoModels) -> AsyncIterator[DemoPool]:
    """A pool that takes seeds, on a link without delay. Shared: leave its slots idle, and use
    only its URL, ports and paths, for it belongs to the session's event loop."""
    async with DemoPool(binaries, demo_models, PoolOptions(rtt_ms=0.0)) as pool:
        yield pool
