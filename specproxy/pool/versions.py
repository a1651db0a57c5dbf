"""Do all parts of a pool speak the same RPC? Found out before anything is started.

A running worker is greeted properly; a program that is not running yet is asked by starting it at
an address that no machine has.
"""

import asyncio
from dataclasses import dataclass

from specproxy.errors import PoolError, SpecproxyError
from specproxy.llama.rpc import greet, library_version
from specproxy.pool.binaries import find_binaries
from specproxy.pool.commands import Command, program
from specproxy.pool.machines import Machine
from specproxy.pool.poolfile import PoolFile, WorkerSection, is_local

_GREET_S = 10.0


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one part speaks; `version` is None where it could not be found out, and `reason` why."""

    name: str
    version: tuple[int, ...] | None
    reason: str = ""

    @property
    def text(self) -> str:
        return "unknown" if self.version is None else ".".join(map(str, self.version))


def is_startable(command: Command) -> bool:
    """Whether we can start it: it is to run here, or where ssh leads."""
    return command.ssh is not None or is_local(command.host)


async def worker_version(worker: WorkerSection, *, is_startable: bool) -> Spoken:
    """What the worker speaks, or its program will."""
    try:
        if not is_startable:
            return Spoken(
                worker.name, tuple(await asyncio.to_thread(greet, worker.endpoint, _GREET_S))
            )
        name = worker_program(worker)
        found = await Machine(worker.ssh).rpc_version(name, worker.device)
    except SpecproxyError as error:
        return Spoken(worker.name, None, str(error))
    if found is None:
        named = f" or has no device {worker.device}" if worker.device else ""
        return Spoken(worker.name, None, f"{name} is not there{named}.")
    return Spoken(worker.name, found)


async def coordinator_version(pool: PoolFile) -> Spoken:
    """What the coordinator will speak: as the RPC server beside it."""
    section = pool.coordinator
    try:
        if section.kind == "specproxy" and section.ssh is None:
            return Spoken("coordinator", tuple(await asyncio.to_thread(library_version)))
        name = program(section.llama, "ggml-rpc-server")
        if section.ssh is None and section.llama is None:
            name = str(find_binaries().worker)
        found = await Machine(section.ssh).rpc_version(name, None)
    except SpecproxyError as error:
        return Spoken("coordinator", None, str(error))
    return Spoken("coordinator", found, "" if found else f"There is no {name} to ask.")


def worker_program(worker: WorkerSection) -> str:
    """The RPC server to run: found here as all tools are, there by its path or name."""
    if worker.ssh is None and worker.llama is None:
        return str(find_binaries().worker)
    return program(worker.llama, "ggml-rpc-server")


def compare_versions(coordinator: Spoken, workers: list[Spoken]) -> list[str]:
    """One sentence for each worker that does not speak as the coordinator does."""
    ours = coordinator.version
    return [
        f"Worker {worker.name} speaks RPC {worker.text}, the coordinator {coordinator.text}: run "
        "the same version of llama.cpp on all machines."
        for worker in workers
        if ours and worker.version and (worker.version[0] != ours[0] or worker.version[1] > ours[1])
    ]


async def check_versions(pool: PoolFile, commands: tuple[Command, ...]) -> None:
    """Compare all before anything starts.

    Raises:
        PoolError: a part is missing, or they do not fit each other.
    """
    listed = zip(pool.workers, commands, strict=False)
    coordinator, *workers = await asyncio.gather(
        coordinator_version(pool),
        *(worker_version(worker, is_startable=is_startable(command)) for worker, command in listed),
    )
    problems = [f"Worker {each.name}: {each.reason}" for each in workers if each.version is None]
    problems += compare_versions(coordinator, workers)
    if problems:
        raise PoolError(" ".join(problems))
