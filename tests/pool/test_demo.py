"""The demo pool with real workers and a real llama-server: it answers, and it leaves nothing."""

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from specproxy.errors import PoolError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.pool.scratch import scratch_folder

pytestmark = pytest.mark.real

PROMPT = "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n"
PARENT = """
import asyncio
from specproxy.pool.binaries import find_binaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import find_models

async def main():
    async with DemoPool(find_binaries(), find_models(), PoolOptions(rtt_ms=1.0)) as pool:
        print(pool.directory, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def processes_of(directory: str) -> list[tuple[int, str]]:
    """Ids and logs of the running processes that log into `directory`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            log = os.readlink(folder / "fd" / "2")
            if log.startswith(directory) and (folder / "cmdline").read_bytes():
                found.append((int(folder.name), Path(log).name))
    return found


async def check_for(pool: DemoPool, duration_s: float) -> None:
    async with asyncio.timeout(duration_s):
        while True:
            pool.check()
            await asyncio.sleep(0.02)


async def completion(url: str, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"prompt": PROMPT, "n_predict": 24, "temperature": 0}
    body |= {"cache_prompt": False, "ignore_eos": True, **fields}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/completion", json=body) as response,
    ):
        assert response.status == 200, await response.text()
        answer: dict[str, Any] = await response.json()
        return answer


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        return await response.json()


async def test_it_answers_with_the_slots_and_cells_it_was_asked_for(demo_pool: DemoPool) -> None:
    demo_pool.check()
    slots = await get(f"{demo_pool.url}/slots")
    assert [slot["id"] for slot in slots] == [0, 1, 2]
    assert demo_pool.seed_slot == 2
    assert {slot["n_ctx"] for slot in slots} == {8192}  # unified: each may use them all
    answer = await completion(demo_pool.url, id_slot=0)
    assert answer["tokens_predicted"] == 24


def test_the_weights_are_on_the_workers(demo_pool: DemoPool) -> None:
    workers = [pid for pid, log in processes_of(str(demo_pool.directory)) if "worker" in log]
    assert len(workers) == demo_pool.options.num_workers
    share = demo_pool.target_model.stat().st_size / 1024 / 2 / len(workers)
    for pid in workers:
        status = Path(f"/proc/{pid}/status").read_text()
        anonymous = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert anonymous
        assert int(anonymous.group(1)) > share


async def test_it_takes_seeds(demo_pool: DemoPool) -> None:
    """What went through the seed slot as a prompt is drafted where its first tokens come up, and
    nothing is drafted where nothing was seeded."""
    generator = random.Random(7)
    url, n_match = demo_pool.url, demo_pool.options.n_match
    for seeded in (False, True):
        prompt = [generator.randrange(1000, 40000) for _ in range(16)]
        first = await completion(url, id_slot=0, prompt=prompt, n_predict=1, return_tokens=True)
        if seeded:
            key = (prompt + first["tokens"])[-n_match:]
            seed = key + [generator.randrange(1000, 40000) for _ in range(8)]
            await completion(url, id_slot=demo_pool.seed_slot, prompt=seed, n_predict=1)
        again = await completion(url, id_slot=1, prompt=prompt, n_predict=4)
        assert bool(again["timings"].get("draft_n")) == seeded


@pytest.mark.parametrize("mode", ["draft", "ngram-draft", "plain"])
async def test_other_modes_answer_and_leave_nothing(
    mode: Any, binaries: LlamaBinaries, demo_models: DemoModels, demo_pool: DemoPool
) -> None:
    waits: list[str] = []
    pool = DemoPool(
        binaries,
        demo_models,
        PoolOptions(mode=mode, rtt_ms=0.0),
        progress=lambda what, _: waits.append(what),
    )
    async with pool:
        assert pool.url != demo_pool.url  # side by side
        answer = await completion(pool.url)
        assert ("draft_n" in answer["timings"]) == (mode != "plain")
        types = answer["generation_settings"]["speculative.types"].split(",")
        assert ("ngram-mod" in types) == (mode == "ngram-draft")
        assert len(processes_of(str(pool.directory))) == 4
    assert "llama-server" in waits
    assert processes_of(str(pool.directory)) == []
    assert not pool.directory.exists()


async def test_each_token_pays_the_link_once_per_worker(
    binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    async with DemoPool(
        binaries, demo_models, PoolOptions(mode="plain", rtt_ms=40.0, num_user_slots=1)
    ) as pool:
        answer = await completion(pool.url, n_predict=8)
        assert answer["timings"]["predicted_per_token_ms"] > 2 * 40.0 * 7 / 8
        await pool.set_rtt_ms(0.0)
        at_once = await completion(pool.url, n_predict=8)
        per_token = [each["timings"]["predicted_per_token_ms"] for each in (at_once, answer)]
        assert per_token == sorted(per_token)


async def test_a_server_that_refuses_its_flags_is_told_with_its_log(
    binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    pool = DemoPool(binaries, demo_models, PoolOptions(extra_args=("--no-such-flag",)))
    with pytest.raises(PoolError, match=r"(?s)llama-server ended.*no-such-flag.*llama-server\.log"):
        await pool.__aenter__()
    assert pool.server_log.exists()
    assert processes_of(str(pool.directory)) == []
    shutil.rmtree(pool.directory)


async def test_a_cancelled_start_leaves_nothing(
    binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    pool = DemoPool(binaries, demo_models, PoolOptions())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await pool.__aenter__()
    assert processes_of(str(pool.directory)) == []
    assert not pool.directory.exists()


async def test_a_dead_worker_is_noticed(binaries: LlamaBinaries, demo_models: DemoModels) -> None:
    async with DemoPool(binaries, demo_models, PoolOptions(rtt_ms=0.0)) as pool:
        pool.check()
        (worker,) = [pid for pid, log in processes_of(str(pool.directory)) if log == "worker-1.log"]
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(PoolError, match="RPC worker 1 has died"):
            await check_for(pool, 20.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_parent(demo_models: DemoModels, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        directory = parent.stdout.readline().strip()
        assert len(processes_of(directory)) == 4
        parent.send_signal(number)
        parent.wait(30)
    deadline_s = time.monotonic() + 20
    while left := processes_of(directory):
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)
    assert Path(directory).exists() == (number == signal.SIGKILL)
    shutil.rmtree(scratch_folder())  # the next pool sweeps up after a dead one
    assert not Path(directory).exists()
