"""`specproxy pool status`: the pool as its coordinator sees it, and what `up` started.

A busy worker answers nobody but the coordinator, so workers are shown through the coordinator's
eyes: by the buffers it says it holds on each of them.
"""

import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from specproxy.errors import PoolError
from specproxy.pool.commands import Command, coordinator_command
from specproxy.pool.health import Asker
from specproxy.pool.keys import coordinator_key
from specproxy.pool.poolfile import PoolFile, read_pool
from specproxy.pool.state import Running, State

_BUFFER = re.compile(
    r"(?P<device>\S+?)\s+(?P<what>model|KV|compute|output) buffer size += +(?P<mib>[\d.]+) MiB"
)
_SPEEDS = {
    "tokens_per_s": ("tokens_predicted_total", "tokens_predicted_seconds_total"),
    "prompt_tokens_per_s": ("prompt_tokens_total", "prompt_seconds_total"),
}
"""Over the life of the coordinator: its own averages begin anew whenever somebody reads them."""


async def status_command(path: Path, out: Console, *, as_json: bool = False) -> int:
    """Show the pool of the file `path`; the exit code is 1 unless all of it is well."""
    data = await pool_status(read_pool(path))
    if as_json:
        out.print_json(json.dumps(data))
    else:
        for line in status_lines(data):
            out.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0 if data["healthy"] else 1


async def pool_status(pool: PoolFile) -> dict[str, Any]:
    """All that can be seen from here."""
    recorded = State(pool.name).read()
    processes = [await _process(running) for running in recorded]
    command = coordinator_command(pool, [1.0], output_local=False)
    coordinator = await _coordinator(pool, command)
    buffers = [await buffers_of(running) for running in recorded if running.role == "coordinator"]
    alive = all(process["running"] is True for process in processes)
    return {
        "pool": pool.name,
        "healthy": alive and coordinator["health"] == "ok",
        "processes": processes,
        "coordinator": coordinator,
        "memory_mib": buffers[0] if buffers else {},
    }


async def _process(running: Running) -> dict[str, Any]:
    try:
        is_running: bool | None = await running.machine.is_running(running.started)
    except PoolError:
        is_running = None
    return {
        "role": running.role,
        "name": running.name,
        "machine": running.machine.name,
        "pid": running.pid,
        "running": is_running,
        "log": running.log,
    }


async def _coordinator(pool: PoolFile, command: Command) -> dict[str, Any]:
    found: dict[str, Any] = {"url": command.url, "health": "unreachable"}
    async with Asker(command.url, coordinator_key(pool)) as asker:
        status = await asker.status("/health")
        if status is None:
            return found
        found["health"] = {200: "ok", 503: "loading"}.get(status, f"status {status}")
        try:
            props = await asker.json("/props")
            slots = await asker.json("/slots")
            found["build"] = str(props.get("build_info", ""))
            found["num_slots"] = len(slots)
            found["num_busy"] = sum(bool(slot.get("is_processing")) for slot in slots)
            found["context_tokens"] = [int(slot.get("n_ctx", 0)) for slot in slots]
        except (PoolError, AttributeError, TypeError, ValueError) as error:
            found["reason"] = str(error)
        found.update(speeds(await asker.text("/metrics")))
    return found


def speeds(metrics: str) -> dict[str, float]:
    """Tokens per second, from a Prometheus text."""
    values = dict(re.findall(r"(?m)^llamacpp:(\w+) ([\d.e+]+)$", metrics))
    found = {}
    for name, (tokens, seconds) in _SPEEDS.items():
        if float(values.get(seconds, 0)):
            found[name] = float(values.get(tokens, 0)) / float(values[seconds])
    return found


async def buffers_of(running: Running) -> dict[str, dict[str, float]]:
    """Memory that the coordinator holds on each device, by its log: device -> what -> MiB."""
    try:
        lines = await running.machine.log_lines(running.started, pattern="buffer size")
    except PoolError:
        return {}
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        buffer = _BUFFER.search(line)
        if buffer is not None:
            device = found.setdefault(buffer["device"], {})
            device[buffer["what"]] = device.get(buffer["what"], 0.0) + float(buffer["mib"])
    return found


def status_lines(data: dict[str, Any]) -> list[str]:
    """The status for people."""
    words = {True: "running", False: "ENDED", None: "cannot be reached"}
    lines = [f"Pool {data['pool']}: {'well' if data['healthy'] else 'NOT WELL'}"]
    lines += [
        f"  {each['role']} {each['name']}: {words[each['running']]}, pid {each['pid']} on "
        f"{each['machine']}, log {each['log']}"
        for each in data["processes"]
    ] or ["  nothing was started from this machine"]
    seen = data["coordinator"]
    line = f"  coordinator at {seen['url']}: {seen['health']}"
    if "num_slots" in seen:
        line += f", {seen['num_busy']} of {seen['num_slots']} slots busy, {seen['build']}"
    lines.append(line + (f" ({seen['reason']})" if "reason" in seen else ""))
    if "tokens_per_s" in seen:
        lines.append(
            f"  speed: {seen['tokens_per_s']:.1f} tokens/s, prompts "
            f"{seen.get('prompt_tokens_per_s', 0):.1f} tokens/s"
        )
    for device, sizes in data["memory_mib"].items():
        parts = ", ".join(f"{what} {mib:.1f} MiB" for what, mib in sizes.items())
        lines.append(f"  {device}: {parts}")
    return lines
