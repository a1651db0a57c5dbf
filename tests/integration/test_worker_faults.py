"""A worker dies or freezes under the real llama-server: what clients see, and what comes after.

llama-server ends itself when a worker is gone, and waits for ever for one that is silent; so the
one is a broken connection to the proxy, the other an answer that stops coming.
"""

import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from specproxy.bench.answers import CHAT_PATH, ask, chat_body
from specproxy.bench.judge import Judge
from specproxy.bench.workloads import PROMPTS, Prompt
from specproxy.draft.engine import LlamaDrafter
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.route import Mode
from specproxy.serve import proxy
from specproxy.server.app import Server
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient
from specproxy.testing import until
from tests.integration.workers import FragilePool

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 24
IDLE_S = 3.0
SOON_S = 10.0
"""For what must not take long on a busy machine either."""
DURING, MEANWHILE, AFTER = PROMPTS[4], PROMPTS[5], PROMPTS[7]


@dataclass(frozen=True, slots=True)
class Broken:
    """How an answer ended.

    Attributes:
        error: of the stream's last event, or of the body.
        seconds: from the fault, or from the request, to the end.
        whole: the body ended as HTTP says that one does.
    """

    status: int
    error: dict[str, Any]
    seconds: float
    whole: bool
    headers: dict[str, str]


@pytest.fixture
async def pool(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path
) -> AsyncIterator[FragilePool]:
    fragile = FragilePool(binaries, demo_models, tmp_path)
    try:
        await fragile.start()
        yield fragile
    finally:
        await fragile.stop()


@asynccontextmanager
async def before(pool: FragilePool) -> AsyncIterator[Server]:
    """A proxy that seeds the pool, and does not wait long for it."""
    limits = {"url": pool.url, "idle_s": IDLE_S, "first_byte_s": IDLE_S}
    settings = load(None, target=limits, listen={"port": 0}, seeding={"warm": "never"})
    drafter = LlamaDrafter(pool.models.draft, num_sequences=2, context_tokens=2048)
    try:
        async with proxy(settings, drafter) as server:
            server.route.poll_s = 0.1
            await until(lambda: server.route.mode is Mode.SEEDING, timeout_s=60)
            yield server
    finally:
        await drafter.aclose()


async def broken(server: Server, prompt: Prompt, fault: Callable[[], None] | None) -> Broken:
    """Ask for a long stream; after some text the fault happens. None: it did before."""
    body = chat_body(prompt.messages, 400) | {"ignore_eos": True}
    timeout = aiohttp.ClientTimeout(total=60)
    began_s, raw, whole = time.monotonic(), b"", True
    async with (
        aiohttp.ClientSession(timeout=timeout) as client,
        client.post(server.url + CHAT_PATH, json=body) as response,
    ):
        try:
            async for chunk in response.content.iter_any():
                raw += chunk
                if fault is not None and raw.count(b"data: ") > 8:
                    fault()
                    fault, began_s = None, time.monotonic()
        except aiohttp.ClientPayloadError:
            whole = False
        seconds = time.monotonic() - began_s
    assert b"[DONE]" not in raw
    last = raw.rpartition(b"data: ")[2]
    error = json.loads(last)["error"]
    return Broken(response.status, error, seconds, whole, dict(response.headers))


async def check_works(server: Server, judge: Judge, plain: TargetClient) -> None:
    """The next answer is the target's own, and sped up."""
    async with TargetClient(TargetSettings(url=server.url)) as front:
        answer = await ask(front, AFTER.messages, NUM_TOKENS)
    reference = await ask(plain, AFTER.messages, NUM_TOKENS)
    verdict = await judge.judge(AFTER.messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict
    await until(lambda: server.route.is_at_rest)
    assert server.route.counts.num_accepted > 0


async def test_a_worker_that_is_killed(
    pool: FragilePool, judge: Judge, plain: TargetClient
) -> None:
    async with before(pool) as server:
        got = await broken(server, DURING, lambda: pool.signal_worker(signal.SIGKILL))
        assert (got.status, got.whole) == (200, False)
        assert got.error["source"] == "specproxy"
        assert got.seconds < SOON_S
        assert pool.server is not None
        assert await pool.server.wait() != 0  # it does so by itself

        refused = await broken(server, MEANWHILE, None)
        assert (refused.status, refused.whole) == (503, True)
        assert "Retry-After" in refused.headers
        assert refused.seconds < SOON_S
        await until(lambda: server.route.mode is Mode.STARTING)

        await pool.stop()
        await pool.start()
        await until(lambda: server.route.mode is Mode.SEEDING, timeout_s=60)
        await check_works(server, judge, plain)


async def test_a_worker_that_freezes(pool: FragilePool, judge: Judge, plain: TargetClient) -> None:
    async with before(pool) as server:
        got = await broken(server, DURING, lambda: pool.signal_worker(signal.SIGSTOP))
        assert (got.status, got.whole) == (200, False)
        assert got.error["source"] == "specproxy"
        assert "silent" in got.error["message"]
        assert got.seconds < IDLE_S + SOON_S

        waited = await broken(server, MEANWHILE, None)
        assert waited.status >= 500 or not waited.whole
        assert waited.error["source"] == "specproxy"
        assert waited.seconds < IDLE_S + SOON_S

        pool.signal_worker(signal.SIGCONT)
        await until(lambda: server.route.mode is Mode.SEEDING, timeout_s=60)
        await check_works(server, judge, plain)


async def test_a_frozen_worker_and_a_server_started_anew(
    pool: FragilePool, judge: Judge, plain: TargetClient
) -> None:
    """What an operator does who does not wait for it."""
    async with before(pool) as server:
        got = await broken(server, DURING, lambda: pool.signal_worker(signal.SIGSTOP))
        assert not got.whole
        await pool.stop()
        await until(lambda: server.route.mode is Mode.STARTING, timeout_s=30)
        await pool.start()
        await until(lambda: server.route.mode is Mode.SEEDING, timeout_s=60)
        await check_works(server, judge, plain)
