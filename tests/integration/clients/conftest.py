"""Runs the scripts of clients, each with what it needs."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from tests.integration.clients.environments import ALL, Environment, NoNetworkError
from tests.target.conftest import TOOL_TEMPLATE

SCRIPT_TIMEOUT_S = 120.0
SHOWN_CALL = r"""
    {{- '<|im_start|>user\nWhat is the weather in Oslo?<|im_end|>\n<|im_start|>assistant\n' }}
    {{- '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>' }}
    {{- '<|im_end|>\n' }}
{%- endif %}
""".lstrip("\n")
"""The little model calls a tool where it has seen it called."""
Run = Callable[..., AbstractAsyncContextManager[dict[str, Any]]]


@pytest.fixture(scope="session", params=ALL, ids=str)
def client(request: pytest.FixtureRequest) -> Environment:
    """A client with its environment; skipped where that cannot be fetched."""
    chosen: Environment = request.param
    if chosen.is_node and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        chosen.install()
    except NoNetworkError as error:
        pytest.skip(str(error))
    return chosen


@asynccontextmanager
async def running(
    client: Environment, url: str, action: str, text: str, max_tokens: int
) -> AsyncIterator[dict[str, Any]]:
    """What the script says it got; it stays alive within the block."""
    asked = json.dumps({"text": text, "max_tokens": max_tokens})
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *client.command(url, action, asked), stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SCRIPT_TIMEOUT_S):
            line = await process.stdout.readline()
        if not line:
            _, stderr = await process.communicate()
            pytest.fail(f"{client} said nothing:\n{stderr.decode()[-3000:]}")
        yield json.loads(line)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture(scope="session")
def run_client() -> Run:
    return running


@pytest.fixture(scope="module")
def tool_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat template that knows tools, as the model's own does not, and shows a call."""
    tools, end, rest = TOOL_TEMPLATE.partition("{%- endif %}\n")
    assert end
    path = tmp_path_factory.mktemp("clients") / "tools.jinja"
    path.write_text(tools + SHOWN_CALL + rest, encoding="utf-8")
    return path


@asynccontextmanager
async def calling_pool(
    binaries: LlamaBinaries, models: DemoModels, template: Path, mode: Any
) -> AsyncIterator[DemoPool]:
    extra = ("--chat-template-file", str(template))
    options = PoolOptions(rtt_ms=0.0, mode=mode, num_user_slots=1, extra_args=extra)
    async with DemoPool(binaries, models, options) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calling(
    binaries: LlamaBinaries, demo_models: DemoModels, tool_template: Path, start_proxy: Any
) -> AsyncIterator[str]:
    """URL of a proxy before a pool that can call tools."""
    async with (
        calling_pool(binaries, demo_models, tool_template, "ngram") as pool,
        start_proxy(pool) as proxied,
    ):
        yield proxied.url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calling_alone(
    binaries: LlamaBinaries, demo_models: DemoModels, tool_template: Path
) -> AsyncIterator[str]:
    """URL of the same target without any speculation."""
    async with calling_pool(binaries, demo_models, tool_template, "plain") as pool:
        yield pool.url
