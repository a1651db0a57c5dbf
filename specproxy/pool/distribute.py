"""`specproxy distribute`: models, or folders of cached tensors, to machines. Parallel, with bars.

Invariant: one destination's failure does not stop the others; the exit code tells.
"""

import asyncio
import shlex
import shutil
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.pool.gguf.model import parts_of
from specproxy.pool.machines import Machine
from specproxy.pool.poolfile import PoolFile, read_pool
from specproxy.pool.sizes import bytes_text
from specproxy.pool.transfer import Destination, Way, look, send, size_of

_WHAT = "Give a GGUF file or a folder of files."


async def distribute_command(
    source: Path,
    places: list[str],
    console: Console,
    out: Console,
    *,
    pool: Path | None = None,
    way: Way = "auto",
    jobs: int = 4,
    ssh: str | None = None,
    dry_run: bool = False,
) -> int:
    """Copy a model (all parts of a split one) or a folder's files to each place.

    Args:
        places: `host:/folder`, `user@host:/folder` or a folder of this machine.
        pool: a pool's file: its coordinator's machine is one more place, if `ssh` leads there.
        jobs: transfers at a time.
        ssh: the ssh command with its options, as `ssh -p 2222`.
        dry_run: say what would be done.

    Returns:
        1 if a transfer failed.

    Raises:
        ConfigError: there is nothing to copy, or nowhere to.
    """
    files = files_of(source)
    destinations = [destination_of(place, ssh) for place in places]
    if pool is not None:
        destinations += _of_pool(read_pool(pool), ssh)
    if not destinations:
        raise ConfigError(
            "There is no place to copy to.",
            remedy="Name some as user@host:/folder, or a pool's file whose coordinator has `ssh`.",
        )
    if way == "rsync" and shutil.which("rsync") is None:
        raise ConfigError("There is no rsync here.", remedy="Install it, or use --way pipe.")
    pairs = [(path, destination) for path in files for destination in destinations]
    if dry_run:
        return await _say(pairs, out)
    gate = asyncio.Semaphore(jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console) as bars:
        failures = await asyncio.gather(
            *(_send(path, destination, way, gate, bars, out) for path, destination in pairs)
        )
    return 1 if any(failures) else 0


def files_of(source: Path) -> list[Path]:
    """The files that a model or folder consists of.

    Raises:
        ConfigError: one is missing, or may not be read.
    """
    try:
        files = sorted(path for path in source.iterdir() if not path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        files = parts_of(source)
    except OSError as error:
        raise _unreadable(source, error) from error
    if not files:
        raise ConfigError(f"There is no file in {source}.", remedy=_WHAT)
    for path in files:
        _check_file(path)
    return files


def _check_file(path: Path) -> None:
    """Raises ConfigError where it cannot be copied."""
    try:
        if not path.is_file():
            raise ConfigError(f"There is no {path}.", remedy=_WHAT)
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path} cannot be read: {error.strerror}.",
        remedy="It must be a file or a folder that this user may read.",
    )


def destination_of(place: str, ssh: str | None = None) -> Destination:
    """`user@host:/folder`, or a folder of this machine.

    Raises:
        ConfigError: it is neither.
    """
    host, colon, folder = place.partition(":")
    if not colon or "/" in host:
        return Destination(Machine(), place)
    if not host or host.startswith("-") or not folder:
        raise ConfigError(f"{place!r} is no place.", remedy="Write user@host:/folder.")
    if folder.startswith("~"):
        if folder[1:2] not in ("", "/"):
            raise ConfigError(
                f"{place!r} names a home that is not known here.",
                remedy="Write the folder from / on, or ~/folder for your own.",
            )
        folder = f".{folder[1:]}"  # scripts begin at home there, and quoted, `~` would be a name
    machine = Machine(host) if ssh is None else Machine(host, tuple(shlex.split(ssh)))
    return Destination(machine, folder)


def _of_pool(pool: PoolFile, ssh: str | None) -> list[Destination]:
    host = pool.coordinator.ssh
    if host is None:
        return []
    return [destination_of(f"{host}:{pool.target.model.parent}", ssh)]


async def _say(pairs: list[tuple[Path, Destination]], out: Console) -> int:
    failed = 0
    for path, destination in pairs:
        num_bytes = size_of(path)
        try:
            there = await look(destination, path.name)
        except SpecproxyError as error:
            text, failed = f"cannot be reached: {error}", 1
        else:
            text = f"would copy {bytes_text(num_bytes)}"
            if there.final_bytes == num_bytes:
                text = "is there with its size; would compare checksums"
            elif there.part_bytes:
                text += f", from {bytes_text(there.part_bytes)} on"
        _print(out, f"{path.name} -> {destination}: {text}")
    return failed


async def _send(
    path: Path,
    destination: Destination,
    way: Way,
    gate: asyncio.Semaphore,
    bars: Progress,
    out: Console,
) -> bool:
    """Returns whether it failed."""
    async with gate:
        task: TaskID = bars.add_task(
            f"{path.name} -> {destination}".replace("[", "\\["), total=size_of(path)
        )
        try:
            how = await send(path, destination, way, lambda done: bars.update(task, completed=done))
        except SpecproxyError as error:
            _print(out, f"{path.name} -> {destination}: FAILED: {error}")
            return True
        _print(out, f"{path.name} -> {destination}: {how}, verified")
        return False


def _print(out: Console, line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)
