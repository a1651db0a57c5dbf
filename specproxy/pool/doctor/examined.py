"""Everything that the checks look at, gathered once; nothing is judged here.

Invariant: nothing is changed and no process started that stays. A worker in use answers nobody
else, so workers are greeted only while no coordinator is well.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from specproxy.errors import PoolError, SpecproxyError
from specproxy.llama.rpc import greet
from specproxy.pool.doctor.process_list import server_on_port
from specproxy.pool.gguf.model import ModelFile, read_model
from specproxy.pool.health import Asker
from specproxy.pool.keys import clients_key, coordinator_key
from specproxy.pool.plan import Plan, make_plan
from specproxy.pool.poolfile import PoolFile, WorkerSection, is_local
from specproxy.pool.state import State
from specproxy.pool.tailscale import Route, path_to
from specproxy.pool.versions import Spoken, coordinator_version, worker_version

_GREET_S = 5.0


@dataclass(frozen=True, slots=True)
class ExaminedWorker:
    """One worker.

    Attributes:
        spoken: its protocol; None: it is in use, and was not asked.
        rtt_ms: to it, by the handshake; None: not measured.
        is_running: it answered the handshake.
        path: how Tailscale reaches it, where it does.
    """

    section: WorkerSection
    spoken: Spoken | None
    rtt_ms: float | None = None
    is_running: bool = False
    path: Route | None = None


@dataclass(frozen=True, slots=True)
class ExaminedServer:
    """The coordinator's process as seen from here.

    Attributes:
        health: status of /health; None: nobody answers.
        num_slots, slot_context: None where it does not tell, and `reason` why.
        argv: its command line, where it runs on this machine or `up` started it.
    """

    health: int | None = None
    num_slots: int | None = None
    slot_context: int | None = None
    reason: str = ""
    argv: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExaminedProxy:
    """The proxy as seen from here.

    Attributes:
        http: status of its own status page; None: nobody answers.
        mode, reason: its first route's; empty where it does not tell.
    """

    http: int | None = None
    mode: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """A pool, looked at.

    Attributes:
        target, draft: None where the file is not here or was not named.
        faults: what could not even be read, with its check's name.
    """

    pool: PoolFile
    plan: Plan | None
    target: ModelFile | None
    draft: ModelFile | None
    workers: tuple[ExaminedWorker, ...]
    speaks: Spoken | None
    server: ExaminedServer
    proxy: ExaminedProxy
    faults: tuple[tuple[str, SpecproxyError], ...] = field(default=())


async def examine(pool: PoolFile) -> Examined:
    """Look at all that can be seen from this machine."""
    faults: list[tuple[str, SpecproxyError]] = []
    target = _read(pool.target.model, "target-model", faults)
    draft = None if pool.draft is None else _read(pool.draft.model, "draft-model", faults)
    plan = None
    try:
        plan = make_plan(pool, target)
    except SpecproxyError as error:
        faults.append(("layout", error))
    server = await _server(pool)
    in_use = server.health is not None
    speaks, proxy, workers = await asyncio.gather(
        coordinator_version(pool),
        _proxy(pool),
        asyncio.gather(*(_worker(pool, at, in_use=in_use) for at in range(len(pool.workers)))),
    )
    return Examined(pool, plan, target, draft, tuple(workers), speaks, server, proxy, tuple(faults))


def _read(path: Path, check: str, faults: list[tuple[str, SpecproxyError]]) -> ModelFile | None:
    if not os.path.exists(path):  # (Path.exists raises where it may not look)
        return None
    try:
        return read_model(path)
    except SpecproxyError as error:
        faults.append((check, error))
        return None


async def _worker(pool: PoolFile, at: int, *, in_use: bool) -> ExaminedWorker:
    section = pool.workers[at]
    startable = section.ssh is not None or is_local(section.host)
    path = await path_to(section.host)
    if in_use:
        spoken = None
        if startable:
            spoken = await worker_version(section, is_startable=True)
        return ExaminedWorker(section, spoken, None, True, path)
    start_s = time.monotonic()
    try:
        version = await asyncio.to_thread(greet, section.endpoint, _GREET_S)
    except SpecproxyError as error:
        spoken = Spoken(section.name, None, str(error))
        if startable:
            spoken = await worker_version(section, is_startable=True)
        return ExaminedWorker(section, spoken, None, False, path)
    # two round trips: the connection's handshake and RPC's
    rtt_ms = (time.monotonic() - start_s) * 1000 / 2
    spoken = Spoken(section.name, tuple(version))
    return ExaminedWorker(section, spoken, rtt_ms, True, path)


async def _server(pool: PoolFile) -> ExaminedServer:
    section = pool.coordinator
    async with Asker(section.url, coordinator_key(pool)) as asker:
        health = await asker.status("/health")
        if health is None:
            return ExaminedServer()
        argv = _argv(pool)
        try:
            slots = await asker.json("/slots")
            contexts = [int(slot["n_ctx"]) for slot in slots]
            return ExaminedServer(health, len(contexts), min(contexts, default=0), "", argv)
        except (PoolError, KeyError, TypeError, ValueError) as error:
            return ExaminedServer(health, None, None, str(error), argv)


def _argv(pool: PoolFile) -> tuple[str, ...] | None:
    for running in State(pool.name).read():
        if running.role == "coordinator":
            return running.argv
    return server_on_port(pool.coordinator.port)


async def _proxy(pool: PoolFile) -> ExaminedProxy:
    if pool.proxy is None:
        return ExaminedProxy()
    page = "/specproxy/status"
    async with Asker(pool.proxy.url, clients_key()) as asker:
        http = await asker.status(page)
        try:
            route = (await asker.json(page))["routes"][0]
            return ExaminedProxy(http, str(route["mode"]), str(route["reason"]))
        except (PoolError, LookupError, TypeError):
            return ExaminedProxy(http)
