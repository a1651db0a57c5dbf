"""`specproxy pool up`: the pool's processes, started in order and waited for.

Invariant: what was started is written down before it is waited for; `up` that fails or is
interrupted takes down what it started.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console

import specproxy
from specproxy.core.tasks import spawn
from specproxy.errors import PoolError
from specproxy.llama.rpc import greet
from specproxy.pool.binaries import find_binaries
from specproxy.pool.commands import Command
from specproxy.pool.down import take_down
from specproxy.pool.health import Asker
from specproxy.pool.keys import COORDINATOR_VARIABLE, coordinator_key, key_variables
from specproxy.pool.machines import Machine
from specproxy.pool.plan import Plan, load_plan
from specproxy.pool.poolfile import PoolFile
from specproxy.pool.state import Running, State
from specproxy.pool.versions import check_versions, is_startable
from specproxy.progress import Step

WORKER_START_S = 30.0
GREET_S = 5.0
_POLL_S = 0.1
_LOOK_S = 1.0
"""How often a process that is waited for is looked at: over ssh that is a connection."""


async def up_command(
    path: Path, console: Console, out: Console, *, timeout_s: float = 900.0
) -> int:
    """Start the pool of the file `path`, and wait until it answers.

    Args:
        timeout_s: for the coordinator, which sends the weights to the workers.

    Raises:
        ConfigError, SetupError, PoolError: it cannot be started; nothing of it is left.
    """
    plan = load_plan(path)
    if plan.problems:
        raise PoolError(" ".join(plan.problems))
    for text in plan.warnings:
        console.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)
    state = State(plan.pool.name)
    if state.read():
        raise PoolError(
            f"Pool {plan.pool.name} was started already.", remedy="Run `specproxy pool down` first."
        )
    with Step(console, "Comparing versions"):
        await check_versions(plan.pool, plan.commands)
    state.begin()
    try:
        await _start_all(plan, state, console, out, timeout_s)
    except BaseException:
        taking_down = spawn(take_down(state, console), name="take the pool down")
        while not taking_down.done():
            await asyncio.wait([taking_down])
        raise
    return 0


async def _start_all(
    plan: Plan, state: State, console: Console, out: Console, timeout_s: float
) -> None:
    for command in plan.commands:
        running = None
        if is_startable(command):
            running = await start(plan.pool, command, state)
            out.print(
                f"{command.role} {command.name}: pid {running.pid} on {running.machine.name}, "
                f"log {running.log}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        limit_s = WORKER_START_S if command.role == "worker" else timeout_s
        await _wait_for(command, running, console, limit_s)
        if command.role != "worker":
            out.print(
                f"{command.role} {command.name} answers at {command.url}",
                markup=False,
                soft_wrap=True,
            )
        if command.role == "coordinator" and plan.pool.proxy is not None:
            await check_key(plan.pool, console)


async def check_key(pool: PoolFile, console: Console) -> None:
    """Say so where the proxy will not be let in: the coordinator's health is open to all."""
    async with Asker(pool.coordinator.url, coordinator_key(pool)) as asker:
        if await asker.status("/props") in (401, 403):
            console.print(
                "warning: The coordinator wants another key than the proxy will give it, so nothing"
                f" will be sped up: set {COORDINATOR_VARIABLE}, and start the pool again.",
                style="yellow",
                soft_wrap=True,
            )


async def start(pool: PoolFile, command: Command, state: State) -> Running:
    """Start a process and write it down; a caller that is cancelled meanwhile is told after that.

    Raises:
        PoolError: it could not be started.
    """
    starting = spawn(_started(pool, command, state), name=f"start {command.name}")
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([starting])
        if not starting.cancelled():
            starting.exception()  # nobody else asks what became of it
        raise


async def _started(pool: PoolFile, command: Command, state: State) -> Running:
    machine = Machine(command.ssh)
    argv = local_argv(command) if command.ssh is None else command.argv
    root = str(Path(specproxy.__file__).parent.parent)
    env = key_variables(pool, command)  # no list of processes shows what stands there
    if command.ssh is None:
        env["PYTHONPATH"] = root
    name = f"{command.role}-{command.name}"
    started = await machine.start(argv, pool=pool.name, name=name, env=env)
    running = Running(
        command.role,
        command.name,
        command.ssh,
        tuple(argv),
        command.url,
        started.pid,
        started.mark,
        started.log,
    )
    state.add(running)
    return running


def local_argv(command: Command) -> tuple[str, ...]:
    """The command with the programs that this machine has, wherever they are.

    Raises:
        SetupError: llama.cpp's tools are not here.
    """
    places: dict[str, tuple[str, ...]] = {
        "specproxy": (sys.executable, "-m", "specproxy.cli"),
    }
    if command.argv[0] in ("ggml-rpc-server", "llama-server"):
        tools = find_binaries()
        places |= {"ggml-rpc-server": (str(tools.worker),), "llama-server": (str(tools.server),)}
    at = next((at for at, word in enumerate(command.argv) if word in places), None)
    if at is None:
        return command.argv
    return (*command.argv[:at], *places[command.argv[at]], *command.argv[at + 1 :])


async def _wait_for(
    command: Command, running: Running | None, console: Console, timeout_s: float
) -> None:
    title = f"Waiting for {command.role} {command.name}"
    with Step(console, title) as step:
        if command.role == "worker":
            await _until(lambda: _greets(command), command, running, step, timeout_s)
            return
        async with Asker(command.url) as asker:
            path = "/health" if command.role == "coordinator" else "/specproxy/status"

            async def is_healthy() -> bool:
                return await asker.status(path) in (200, 401)

            await _until(is_healthy, command, running, step, timeout_s)


async def _greets(command: Command) -> bool:
    try:
        await asyncio.to_thread(greet, f"{command.host}:{command.port}", GREET_S)
    except PoolError:
        return False
    return True


async def _until(
    is_ready: Callable[[], Awaitable[bool]],
    command: Command,
    running: Running | None,
    step: Step,
    timeout_s: float,
) -> None:
    looked_s = time.monotonic()
    while not await is_ready():
        step.update()
        if step.elapsed_s > timeout_s or (running is None and step.elapsed_s > GREET_S):
            raise await _failure(command, running, f"does not answer at {command.url[7:]}")
        if running is not None and time.monotonic() - looked_s > _LOOK_S:
            looked_s = time.monotonic()
            if not await running.machine.is_running(running.started):
                raise await _failure(command, running, "has ended")
        await asyncio.sleep(_POLL_S)


async def _failure(command: Command, running: Running | None, what: str) -> PoolError:
    name = f"{command.role} {command.name}"
    if running is None:
        return PoolError(
            f"The {name} {what}.",
            remedy=f"Start it on its machine, or give it `ssh`: {command.line}",
        )
    lines = "\n".join(await running.machine.log_lines(running.started))
    return PoolError(
        f"The {name} {what}. Its log ends with:\n{lines}\n",
        remedy=f"The whole log was {running.log} on {running.machine.name}.",
    )
