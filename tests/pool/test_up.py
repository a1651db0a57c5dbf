"""A pool of the file's own on loopback: up, a chat through the proxy, status, down."""

import json
import os
import socket
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from rich.console import Console

from specproxy.errors import PoolError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.doctor.command import doctor_command
from specproxy.pool.down import down_command
from specproxy.pool.machines import Machine
from specproxy.pool.models import DemoModels
from specproxy.pool.plan import Plan, load_plan
from specproxy.pool.poolfile import read_pool
from specproxy.pool.processes import free_ports
from specproxy.pool.state import State
from specproxy.pool.status import pool_status, status_command
from specproxy.pool.up import up_command

Written = Callable[..., Path]


def silent() -> Console:
    return Console(file=StringIO(), width=300)


def shown(out: Console) -> str:
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()


@pytest.fixture
def pool_file(
    tmp_path: Path,
    demo_models: DemoModels,
    binaries: LlamaBinaries,
    monkeypatch: pytest.MonkeyPatch,
) -> Written:
    """Writes the file of a pool of two workers, with some keys changed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPECPROXY_LLAMA_DIR", str(binaries.server.parent))
    first, second, server, proxy = free_ports(4)
    name = f"test-{os.getpid()}-{server}"

    def write(**coordinator: Any) -> Path:
        content = {
            "name": name,
            "target": {"model": str(demo_models.target), "context_tokens": 2048, "users": 1},
            "draft": {"model": str(demo_models.draft)},
            "coordinator": {"port": server, "memory_gib": 8, **coordinator},
            "workers": [
                {"name": f"w{port}", "host": "127.0.0.1", "port": port, "memory_gib": 4}
                | {"cache": False}
                for port in (first, second)
            ],
            "proxy": {"port": proxy},
        }
        path = tmp_path / "pool.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


async def chat(url: str) -> str:
    body = {
        "messages": [{"role": "user", "content": "Name three colours."}],
        "max_tokens": 12,
        "temperature": 0,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=body) as response,
    ):
        assert response.status == 200
        answer = await response.json()
        return str(answer["choices"][0]["message"]["content"])


def check_memory(plan: Plan, held: dict[str, dict[str, float]]) -> None:
    """The plan's bytes are those that llama-server holds on each worker."""
    for load, worker in zip(plan.loads, plan.pool.workers, strict=True):
        (device,) = (each for name, each in held.items() if name.endswith(f"[{worker.endpoint}]"))
        assert device["model"] == pytest.approx(load.weight_bytes / 2**20, abs=0.01)
        assert device["KV"] == pytest.approx(load.kv_bytes / 2**20, abs=0.01)
        assert device["compute"] <= load.compute_bytes / 2**20


async def still_there(state: State) -> list[int]:
    return [each.pid for each in state.read() if await each.machine.is_running(each.started)]


@pytest.mark.real
@pytest.mark.parametrize("kind", ["llama-server", "specproxy"])
async def test_up_chat_status_down(pool_file: Written, kind: str) -> None:
    path, out = pool_file(kind=kind), silent()
    pool = read_pool(path)
    state = State(pool.name)
    try:
        assert await up_command(path, silent(), out, timeout_s=120) == 0
        running = state.read()
        assert [each.role for each in running] == ["worker", "worker", "coordinator", "proxy"]
        assert len(await still_there(state)) == 4
        assert all(each.log.endswith(f"{each.role}-{each.name}.log") for each in running)
        assert pool.proxy is not None
        assert await chat(f"http://127.0.0.1:{pool.proxy.port}")
        assert await status_command(path, out) == 0
        data = json.loads(json.dumps(await pool_status(pool)))
        assert data["coordinator"]["num_slots"] == pool.num_slots
        if kind == "llama-server":
            check_memory(load_plan(path), data["memory_mib"])
            assert data["coordinator"]["tokens_per_s"] > 0
        assert await doctor_command(path, silent(), out) == 0, shown(out)
        with pytest.raises(PoolError, match="was started already"):
            await up_command(path, silent(), out)
        assert len(await still_there(state)) == 4
    finally:
        assert await down_command(path, silent(), out) == 0
    assert state.read() == ()
    assert not state.path.exists()
    machine = Machine()
    assert [each for each in running if await machine.is_running(each.started)] == []
    assert await status_command(path, out) == 1
    assert f"Pool {pool.name}: 4 of 4 processes ended." in shown(out)


@pytest.mark.real
async def test_a_start_that_fails_shows_the_log_and_leaves_nothing(pool_file: Written) -> None:
    path = pool_file()
    state = State(read_pool(path).name)
    content = path.read_text(encoding="utf-8").replace(
        "context_tokens: 2048", "context_tokens: 256"
    )
    path.write_text(content.replace("users: 1", "users: 100"), encoding="utf-8")
    port = yaml.safe_load(content)["coordinator"]["port"]
    with (
        socket.create_server(("127.0.0.1", port)),  # so that the coordinator cannot listen
        pytest.raises(PoolError, match=r"(?s)coordinator llama-server .*log"),
    ):
        await up_command(path, silent(), silent(), timeout_s=20)
    assert state.read() == ()


@pytest.mark.real
async def test_a_worker_elsewhere_must_run_already(pool_file: Written) -> None:
    path = pool_file()
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    (port,) = free_ports(1)
    content["workers"][1] |= {"host": "127.0.0.1", "port": port, "ssh": "nobody@127.0.0.1"}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(PoolError, match=r"nobody@127\.0\.0\.1"):
        await up_command(path, silent(), silent())
    assert State(content["name"]).read() == ()


async def test_a_public_worker_is_refused_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    content = {
        "name": "open",
        "target": {"model": "/nowhere.gguf"},
        "coordinator": {"memory_gib": 8},
        "workers": [{"name": "w", "host": "0.0.0.0", "memory_gib": 4}],
    }
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(PoolError, match=r"0\.0\.0\.0 is every interface.*no authentication"):
        await up_command(path, silent(), silent())
    assert State("open").read() == ()


async def test_a_pid_of_another_process_is_never_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = Machine()
    started = await machine.start(["sleep", "600"], pool="p", name="sleeper")
    other = type(started)(started.pid, "another time", started.log)
    try:
        assert await machine.is_running(started)
        assert not await machine.is_running(other)
        await machine.signal(other, "KILL")
        assert await machine.is_running(started)
    finally:
        await machine.signal(started, "KILL")
    for _ in range(100):
        if not await machine.is_running(started):
            break
    assert not await machine.is_running(started)


async def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(PoolError, match="no-such-program is not there"):
        await Machine().start(["no-such-program"], pool="p", name="x")
