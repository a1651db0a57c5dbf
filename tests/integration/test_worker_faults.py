"""A worker dies or freezes under the real llama-server: what clients see, and what comes after.

llama-server ends itself when a worker is gone, and waits for ever for one that is silent; so the
one is a broken connection to the proxy, the other an answer that stops coming. Whoever runs the
pool starts it anew; the proxy stays.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from specproxy.bench.answers import CHAT_PATH, ask, chat_body
from specproxy.bench.judge import Judge
from specproxy.bench.workloads import PROMPTS, Prompt
from specproxy.draft.engine import LlamaDrafter
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import free_ports
from specproxy.route import Mode
from specproxy.serve import proxy
from specproxy.server.app import Server
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient
from specproxy.testing import until

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 24
IDLE_S = 5.0
BACK_S = 120.0
DURING, MEANWHILE, AFTER = PROMPTS[4], PROMPTS[5], PROMPTS[7]


@dataclass(frozen=True, slots=True)
class Broken:
    """How an answer ended.

    Attributes:
        error: of the stream's last event, or of the body.
        waited_s: from the fault, or from the request, to the end.
        whole: the body ended as HTTP says that one does.
    """

    status: int
    error: dict[str, Any]
    waited_s: float
    whole: bool
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Restartable:
    """Pools one after the other at one address."""

    binaries: LlamaBinaries
    models: DemoModels
    port: int

    def pool(self) -> DemoPool:
        options = PoolOptions(rtt_ms=0.0, num_user_slots=1, context_tokens=2048, port=self.port)
        return DemoPool(self.binaries, self.models, options)


@pytest.fixture
def address(binaries: LlamaBinaries, demo_models: DemoModels) -> Restartable:
    return Restartable(binaries, demo_models, free_ports(1)[0])


@asynccontextmanager
async def before(address: Restartable) -> AsyncIterator[Server]:
    """A proxy that does not wait long for its target, which need not be there yet."""
    url = f"http://127.0.0.1:{address.port}"
    limits = {"url": url, "idle_s": IDLE_S, "first_byte_s": IDLE_S}
    settings = load(None, target=limits, listen={"port": 0}, seeding={"warm": "never"})
    drafter = await asyncio.to_thread(
        LlamaDrafter, address.models.draft, num_sequences=2, context_tokens=2048
    )
    try:
        async with proxy(settings, drafter) as server:
            server.route.poll_s = 0.1
            yield server
    finally:
        await drafter.aclose()


async def seeding(server: Server) -> None:
    await until(lambda: server.route.mode is Mode.SEEDING, timeout_s=BACK_S)


async def broken(server: Server, prompt: Prompt, fault: Callable[[], None] | None) -> Broken:
    """Ask for a long stream; after some text the fault happens. None: it did before."""
    clock = asyncio.get_running_loop().time
    body = chat_body(prompt.messages, 1500) | {"ignore_eos": True}
    began_s, raw, whole = clock(), b"", True
    async with (
        aiohttp.ClientSession() as client,
        client.post(server.url + CHAT_PATH, json=body) as response,
    ):
        try:
            async for chunk in response.content.iter_any():
                raw += chunk
                if fault is not None and raw.count(b"data: ") > 8:
                    fault()
                    fault, began_s = None, clock()
        except aiohttp.ClientPayloadError:
            whole = False
    assert b"[DONE]" not in raw
    error = json.loads(raw.rpartition(b"data: ")[2])["error"]
    return Broken(response.status, error, clock() - began_s, whole, dict(response.headers))


async def check_works(server: Server, judge: Judge, plain: TargetClient) -> None:
    """The next answer is the target's own, and drafted for."""
    num_before = server.route.counts.num_answers
    async with TargetClient(TargetSettings(url=server.url)) as front:
        answer = await ask(front, AFTER.messages, NUM_TOKENS)
    reference = await ask(plain, AFTER.messages, NUM_TOKENS)
    verdict = await judge.judge(AFTER.messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict
    await until(lambda: server.route.is_at_rest)
    assert server.route.counts.num_answers == num_before + 1


async def test_a_worker_is_killed(address: Restartable, judge: Judge, plain: TargetClient) -> None:
    async with before(address) as server:
        async with address.pool() as pool:
            await seeding(server)
            kill = (pool.worker_pids[-1], signal.SIGKILL)
            got = await broken(server, DURING, lambda: os.kill(*kill))
            assert (got.status, got.whole) == (200, False)
            assert got.error["source"] == "specproxy"
            assert got.waited_s < IDLE_S  # told by the reset, not by silence

            await until(lambda: server.route.mode is Mode.STARTING)
            refused = await broken(server, MEANWHILE, None)
            assert (refused.status, refused.whole) == (503, True)
            assert "Retry-After" in refused.headers
            assert refused.waited_s < IDLE_S
        async with address.pool():
            await seeding(server)
            await check_works(server, judge, plain)


async def test_a_worker_freezes_and_thaws(
    address: Restartable, judge: Judge, plain: TargetClient
) -> None:
    async with before(address) as server, address.pool() as pool:
        await seeding(server)
        worker = pool.worker_pids[-1]
        got = await broken(server, DURING, lambda: os.kill(worker, signal.SIGSTOP))
        assert (got.status, got.whole) == (200, False)
        assert "silent" in got.error["message"]
        assert got.waited_s < 3 * IDLE_S

        waited = await broken(server, MEANWHILE, None)
        assert (waited.status, waited.error["source"]) == (503, "specproxy")
        assert waited.waited_s < 3 * IDLE_S

        os.kill(worker, signal.SIGCONT)
        await seeding(server)
        await check_works(server, judge, plain)


async def test_a_worker_stays_frozen_and_the_pool_is_started_anew(
    address: Restartable, judge: Judge, plain: TargetClient
) -> None:
    async with before(address) as server:
        async with address.pool() as pool:
            await seeding(server)
            freeze = (pool.worker_pids[-1], signal.SIGSTOP)
            got = await broken(server, DURING, lambda: os.kill(*freeze))
            assert (got.status, got.whole) == (200, False)
        await until(lambda: server.route.mode is Mode.STARTING)
        async with address.pool():
            await seeding(server)
            await check_works(server, judge, plain)
