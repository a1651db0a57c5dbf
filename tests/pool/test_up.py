"""A pool of the file's own on loopback: up, a chat through the proxy, status, down."""

import asyncio
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
from aiohttp import web
from rich.console import Console

from specproxy.core.tasks import spawn
from specproxy.errors import PoolError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.commands import Command
from specproxy.pool.doctor.command import doctor_command
from specproxy.pool.down import down_command
from specproxy.pool.machines import Machine
from specproxy.pool.models import DemoModels
from specproxy.pool.plan import Plan, load_plan
from specproxy.pool.poolfile import PoolFile, read_pool
from specproxy.pool.processes import free_ports
from specproxy.pool.state import State
from specproxy.pool.status import pool_status, status_command
from specproxy.pool.up import check_key, start, up_command
from specproxy.testing.polling import until

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


async def props_at(url: str, *, key: str = "") -> int:
    """The status of a page that the proxy asks the coordinator for."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{url}/props") as response,
    ):
        return response.status


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
async def test_one_key_for_the_proxy_and_a_coordinator_of_our_own(
    pool_file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "key")
    path, console, out = pool_file(kind="specproxy"), silent(), silent()
    proxy = read_pool(path).proxy
    assert proxy is not None
    try:
        assert await up_command(path, console, out, timeout_s=120) == 0
        assert "warning" not in shown(console)
        assert await status_command(path, out) == 0
        assert await doctor_command(path, silent(), out) == 0, shown(out)
        assert "wants a key" not in shown(out)
        assert await props_at(proxy.url, key="key") == 200
        assert await props_at(proxy.url) == 401
    finally:
        assert await down_command(path, silent(), out) == 0


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


def test_a_record_that_cannot_be_written_is_said_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    state = State("p")
    state.path.with_suffix(".new").mkdir(parents=True)
    with pytest.raises(PoolError, match=r"state\.json cannot be written: Is a dir.*XDG_CACHE_HOME"):
        state.begin()
    state.path.with_suffix(".new").rmdir()
    state.begin()
    assert state.read() == ()


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


async def test_a_start_that_is_interrupted_is_written_down_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process runs already when ssh is still on its way back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\n/bin/sh -s\nsleep 1\n", encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    pool = pool_without_machines(coordinator_port=1)
    state, log = State(pool.name), tmp_path / "specproxy/pools/p/worker-w.log"
    command = Command("worker", "w", ("sleep", "600"), "127.0.0.1", 1, ssh="far")
    starting = spawn(start(pool, command, state), name="start")
    await until(log.exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    (running,) = state.read()
    here = Machine()
    try:
        assert await here.is_running(running.started)
    finally:
        await here.signal(running.started, "KILL")


@pytest.mark.parametrize("status", [200, 401])
async def test_a_coordinator_that_wants_another_key_is_said(status: int) -> None:
    async def props(_: web.Request) -> web.Response:
        return web.json_response({}, status=status)

    app = web.Application()
    app.add_routes([web.get("/props", props)])
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    console = silent()
    try:
        await check_key(pool_without_machines(coordinator_port=port), console)
    finally:
        await runner.cleanup()
    assert ("set SPECPROXY_TARGET__API_KEY" in shown(console)) == (status == 401)


def pool_without_machines(*, coordinator_port: int) -> PoolFile:
    return PoolFile.model_validate(
        {
            "name": "p",
            "target": {"model": "/nowhere.gguf"},
            "coordinator": {"memory_gib": 8, "port": coordinator_port},
            "workers": [{"name": "w", "host": "127.0.0.1", "memory_gib": 4}],
        }
    )
