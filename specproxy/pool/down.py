"""`specproxy pool down`: what `up` started is ended, the last first.

Invariant: these very processes and no others, known by pid and start time; what cannot be reached
stays recorded.
"""

import asyncio
import time
from pathlib import Path

from rich.console import Console

from specproxy.errors import PoolError
from specproxy.pool.poolfile import read_pool
from specproxy.pool.state import Running, State
from specproxy.progress import Step

GRACE_S = 15.0
"""More than `server.app.SHUTDOWN_S`, in which a proxy lets its answers end."""
_POLL_S = 0.1


async def down_command(path: Path, console: Console, out: Console) -> int:
    """End what `up` started; the exit code is 1 if something would not end."""
    name = read_pool(path).name
    state = State(name)
    count = len(state.read())
    left = await take_down(state, console)
    out.print(
        f"Pool {name}: {count - len(left)} of {count} processes ended."
        if count
        else f"Pool {name} was not started from this machine.",
        highlight=False,
    )
    for text in left:
        console.print(text, style="red", markup=False, soft_wrap=True)
    return 1 if left else 0


async def take_down(state: State, console: Console) -> list[str]:
    """End all that is recorded, the last started first; what would not end, and why."""
    left = []
    for running in reversed(state.read()):
        with Step(console, f"Ending {running.role} {running.name}"):
            try:
                await _end(running)
            except PoolError as error:  # its machine cannot be reached: it stays recorded
                left.append(f"{running.role} {running.name}: {error}")
                continue
        state.remove(running)
    return left


async def _end(running: Running) -> None:
    machine, process = running.machine, running.started
    for name in ("TERM", "KILL"):
        await machine.signal(process, name)
        deadline_s = time.monotonic() + GRACE_S
        while await machine.is_running(process):
            if time.monotonic() > deadline_s:
                break
            await asyncio.sleep(_POLL_S)
        else:
            return
    raise PoolError(f"pid {process.pid} on {machine.name} does not end.")
