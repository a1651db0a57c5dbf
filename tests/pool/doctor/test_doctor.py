"""The doctor finds each of these planted faults, and names a mend."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from rich.console import Console

from specproxy.llama.rpc import RpcVersion, library_version
from specproxy.pool.doctor.command import doctor_command
from specproxy.pool.machines import Machine
from specproxy.pool.processes import free_ports
from specproxy.pool.state import Running, State

Writer = Callable[..., Path]
pytestmark = pytest.mark.real  # the workers' protocol is that of the real library

FLAGS = (
    "llama-server --device RPC0,RPC1 --tensor-split 3,2 -np 2 --kv-unified --cache-ram 0 -sps 0 "
    "--spec-type ngram-mod --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 12"
)


class Worker:
    """Speaks the handshake of ggml's RPC, in any version."""

    def __init__(self, version: RpcVersion, delay_s: float = 0.0) -> None:
        self._answer = struct.pack("<Q4B24x", 28, *version, 0)
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(64)
                threading.Event().wait(self._delay_s)
                connection.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


class Pool:
    """A pool that is well, until something is changed."""

    def __init__(self, tmp_path: Path, target: Path, draft: Path) -> None:
        self._path = tmp_path / "pool.yaml"
        self.ports = free_ports(4)
        self.num_slots, self.slot_context, self.key, self.proxy_key = 2, 4096, "", ""
        self.flags = FLAGS
        self.route = {"mode": "seeding", "reason": ""}
        self.server_answers = False
        self.content: dict[str, Any] = {
            "name": "sick",
            "target": {"model": str(target), "context_tokens": 4096, "users": 1},
            "draft": {"model": str(draft)},
            "coordinator": {"port": self.ports[2], "memory_gib": 8},
            "workers": [
                {"name": f"w{at}", "host": "127.0.0.1", "port": self.ports[at], "memory_gib": 4}
                for at in range(2)
            ],
            "proxy": {"port": self.ports[3]},
        }

    async def findings(self) -> dict[str, dict[str, str]]:
        """What the doctor says but "ok", by check."""
        self._path.write_text(yaml.safe_dump(self.content), encoding="utf-8")
        file = StringIO()
        async with self._running():
            silent = Console(file=StringIO())
            code = await doctor_command(self._path, silent, Console(file=file), as_json=True)
        data = json.loads(file.getvalue())
        assert code == (0 if data["healthy"] else 1)
        found = {each["check"]: each for each in data["findings"] if each["level"] != "ok"}
        assert all(each["remedy"] for each in found.values())
        return found

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        if not self.server_answers:
            yield
            return
        started = await Machine().start(["sleep", "60"], pool="sick", name="llama-server")
        State("sick").add(
            Running(
                *("coordinator", "llama-server", None, tuple(self.flags.split()), "http://x"),
                *(started.pid, started.mark, started.log),
            )
        )
        runners = [
            await listen(self._server(), self.ports[2]),
            await listen(self._proxy(), self.ports[3]),
        ]
        try:
            yield
        finally:
            for runner in runners:
                await runner.cleanup()
            await Machine().signal(started, "KILL")

    def _server(self) -> web.Application:
        async def health(_: web.Request) -> web.Response:
            return web.json_response({"status": "ok"})

        async def slots(request: web.Request) -> web.Response:
            if not has_key(request, self.key):
                return web.json_response({}, status=401)
            return web.json_response([{"n_ctx": self.slot_context}] * self.num_slots)

        app = web.Application()
        app.add_routes([web.get("/health", health), web.get("/slots", slots)])
        return app

    def _proxy(self) -> web.Application:
        async def status(request: web.Request) -> web.Response:
            if not has_key(request, self.proxy_key):
                return web.json_response({}, status=401)
            return web.json_response({"routes": [self.route]})

        app = web.Application()
        app.add_routes([web.get("/specproxy/status", status)])
        return app


def has_key(request: web.Request, key: str) -> bool:
    return not key or request.headers.get("Authorization") == f"Bearer {key}"


async def listen(app: web.Application, port: int) -> web.AppRunner:
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


@pytest.fixture
def pool(tmp_path: Path, written: Writer, binaries: Any, monkeypatch: pytest.MonkeyPatch) -> Pool:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPECPROXY_LLAMA_DIR", str(binaries.server.parent))
    return Pool(tmp_path, written("target.gguf", num_layers=8), written("draft.gguf", num_layers=2))


@contextmanager
def listening(pool: Pool, version: RpcVersion, delay_s: float = 0.0) -> Iterator[None]:
    """Two workers of the version in the pool."""
    workers = [Worker(version, delay_s) for _ in range(2)]
    for section, worker in zip(pool.content["workers"], workers, strict=True):
        section["port"] = worker.port
    try:
        yield
    finally:
        for worker in workers:
            worker.close()


async def test_a_healthy_pool_has_no_findings(pool: Pool) -> None:
    pool.server_answers = True
    assert await pool.findings() == {}


@pytest.mark.parametrize(
    ("flags", "check", "mend"),
    [
        (("--cache-ram 0", ""), "cache-ram", "--cache-ram 0"),
        (("--cache-ram 0", "--cache-ram 8192"), "cache-ram", "--cache-ram 0"),
        (("-sps 0", ""), "slot-similarity", "-sps 0"),
        (("--spec-type ngram-mod", ""), "spec-type", "--spec-type ngram-mod"),
        (("--spec-ngram-mod-n-min 1", ""), "n-min", "n-min 1"),
        (("RPC0,RPC1", "CUDA0,RPC0,RPC1"), "device-order", "--device RPC0,RPC1,CUDA0"),
        (("RPC0,RPC1", "RPC0,RPC1,CUDA0"), "tensor-split", "--tensor-split"),
    ],
)
async def test_a_wrong_flag(pool: Pool, flags: tuple[str, str], check: str, mend: str) -> None:
    pool.server_answers = True
    pool.flags = FLAGS.replace(*flags)
    found = await pool.findings()
    assert mend in found[check]["remedy"]
    assert set(found) <= {check, "tensor-split"}


async def test_no_slot_for_seeds(pool: Pool) -> None:
    pool.server_answers, pool.num_slots = True, 1
    found = await pool.findings()
    assert set(found) == {"seed-slot"}
    assert "-np 2" in found["seed-slot"]["remedy"]


async def test_a_cache_split_among_slots(pool: Pool) -> None:
    pool.server_answers, pool.slot_context = True, 2048
    assert set(await pool.findings()) == {"kv-unified"}


async def test_a_coordinator_that_wants_a_key(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.server_answers, pool.key = True, "secret"
    found = await pool.findings()
    assert set(found) == {"coordinator"}
    assert "wants a key" in found["coordinator"]["text"]
    monkeypatch.setenv("SPECPROXY_TARGET__API_KEY", "secret")
    assert await pool.findings() == {}


async def test_a_proxy_that_wants_a_key(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.server_answers, pool.proxy_key = True, "secret"
    found = await pool.findings()
    assert set(found) == {"proxy"}
    assert found["proxy"]["level"] == "warning"
    assert "wants a key" in found["proxy"]["text"]
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "secret")
    assert await pool.findings() == {}


async def test_a_proxy_that_does_not_speculate(pool: Pool) -> None:
    pool.server_answers = True
    pool.route = {"mode": "passthrough", "reason": "the target has one slot"}
    found = await pool.findings()
    assert "the target has one slot" in found["proxy"]["text"]


async def test_no_coordinator(pool: Pool) -> None:
    assert set(await pool.findings()) == {"coordinator"}


async def test_a_wrong_vocabulary(pool: Pool, written: Writer) -> None:
    other = written("other.gguf", tokens=["x"] * 32)
    pool.content["draft"]["model"] = str(other)
    found = await pool.findings()
    assert "token 0 is 'x' in the draft and 'word0' in the target" in found["vocabulary"]["text"]


async def test_a_draft_larger_than_its_target(pool: Pool, written: Writer) -> None:
    pool.content["draft"]["model"] = str(written("large.gguf", num_layers=30))
    assert "larger" in (await pool.findings())["draft-doubt"]["text"]


async def test_a_public_bind(pool: Pool) -> None:
    pool.content["workers"][0]["host"] = "0.0.0.0"
    found = await pool.findings()
    assert "no authentication" in found["public-bind"]["text"]


async def test_another_version(pool: Pool) -> None:
    ours = library_version()
    with listening(pool, RpcVersion(ours.major + 1, 0, 0)):
        found = await pool.findings()
    assert set(found) == {"version", "coordinator"}
    assert f"speaks RPC {ours.major + 1}.0.0" in found["version"]["text"]
    with listening(pool, ours):
        assert set(await pool.findings()) == {"coordinator"}


async def test_a_worker_that_is_not_there(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.content["workers"][0] |= {"llama": "/nowhere"}
    found = await pool.findings()
    assert "/nowhere/ggml-rpc-server is not there" in found["worker"]["text"]


async def test_a_slow_link(pool: Pool) -> None:
    with listening(pool, library_version(), delay_s=0.1):
        found = await pool.findings()
    assert "the file says 0.5 ms" in found["slow-link"]["text"]


async def test_a_relayed_path(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "tailscale"
    command.parent.mkdir()
    command.write_text(
        "#!/bin/sh\necho 'pong from ann (100.64.0.21) via DERP(fra) in 48ms'\n", encoding="utf-8"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    pool.server_answers = True  # then nobody is greeted at that address
    pool.content["workers"][0]["host"] = "100.64.0.21"
    found = await pool.findings()
    assert "DERP(fra), 48 ms" in found["relayed-path"]["text"]


async def test_too_little_memory(pool: Pool) -> None:
    pool.content["workers"][0]["memory_gib"] = 0.4
    pool.content["workers"][0]["layers"] = 4
    assert "w0 by" in (await pool.findings())["memory"]["text"]


async def test_a_broken_model(pool: Pool, tmp_path: Path) -> None:
    target = Path(pool.content["target"]["model"])
    await asyncio.to_thread(lambda: target.write_bytes(target.read_bytes()[:900]))
    assert "is broken" in (await pool.findings())["target-model"]["text"]


@pytest.mark.parametrize("place", ["/nowhere.gguf", f"/{'x' * 300}"])
async def test_no_draft_where_the_proxy_runs(pool: Pool, place: str) -> None:
    pool.content["draft"]["model"] = place
    assert "is not on this machine" in (await pool.findings())["draft-model"]["text"]
