"""One file to one machine: resumed where it was interrupted, and verified before it gets its name.

By rsync over ssh where both sides have it, else by a plain pipe over ssh.

Invariant: a file with its final name is complete and has the checksum of the original; what is
under way is called `.NAME.part`.
"""

import asyncio
import contextlib
import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specproxy.errors import PoolError
from specproxy.pool.machines import Machine

Way = Literal["auto", "rsync", "pipe"]
WAYS: dict[str, Way] = {"auto": "auto", "rsync": "rsync", "pipe": "pipe"}
Progress = Callable[[int], None]
"""Called with the bytes that are there so far."""

_CHUNK_BYTES = 1 << 20
_CHECKSUM_S = 3600.0
_PERCENT = re.compile(rb"^\s*([\d,]+)\s+\d+%", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Destination:
    """A folder on a machine."""

    machine: Machine
    folder: str

    def __str__(self) -> str:
        return f"{self.machine.ssh}:{self.folder}" if self.machine.ssh else self.folder

    def final(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"

    def part(self, name: str) -> str:
        return self.final(f".{name}.part")


@dataclass(frozen=True, slots=True)
class Presence:
    """What is at the destination already.

    Attributes:
        final_bytes: size of the file with its final name; None: there is none.
        part_bytes: of what was interrupted.
        has_rsync: the machine has rsync.
    """

    final_bytes: int | None
    part_bytes: int
    has_rsync: bool


async def look(destination: Destination, name: str) -> Presence:
    """See what is there.

    Raises:
        PoolError: the machine cannot be reached.
    """
    final, part = (shlex.quote(path) for path in (destination.final(name), destination.part(name)))
    answer = await destination.machine.run(f"""
        [ -f {final} ] && wc -c <{final} || echo none
        [ -f {part} ] && wc -c <{part} || echo 0
        command -v rsync >/dev/null && echo yes || echo no
    """)
    size, part_size, rsync = answer.split()
    return Presence(None if size == "none" else int(size), int(part_size), rsync == "yes")


async def is_same(destination: Destination, path: str, sha256: str) -> bool:
    """Whether the file there has the checksum."""
    quoted = shlex.quote(path)
    answer = await destination.machine.run(
        f"if command -v sha256sum >/dev/null; then sha256sum {quoted}; "
        f"else shasum -a 256 {quoted}; fi",
        timeout_s=_CHECKSUM_S,
    )
    return answer.lstrip("\\").startswith(sha256)


def size_of(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


def checksum(path: Path) -> str:
    """SHA-256 of a file. Blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def send(path: Path, destination: Destination, way: Way, progress: Progress) -> str:
    """Bring `path` to the destination; returns how, in a word.

    Raises:
        PoolError: the connection broke (call again: it resumes), or the copy is not the original.
    """
    name, num_bytes = path.name, size_of(path)
    there, sha256 = await asyncio.gather(look(destination, name), asyncio.to_thread(checksum, path))
    if there.final_bytes == num_bytes and await is_same(
        destination, destination.final(name), sha256
    ):
        progress(num_bytes)
        return "there already"
    await destination.machine.run(f"mkdir -p {shlex.quote(destination.folder)}")
    use_rsync = way == "rsync" or (way == "auto" and there.has_rsync and shutil.which("rsync"))
    part = destination.part(name)
    for attempt in (1, 2):
        if use_rsync:
            await _by_rsync(path, destination, progress)
        else:
            await _by_pipe(path, destination, there.part_bytes, progress)
        if await is_same(destination, part, sha256):
            break
        # what was left of an earlier try was of another file
        await destination.machine.run(f"rm -f {shlex.quote(part)}")
        there = Presence(None, 0, there.has_rsync)
        if attempt == 2:
            raise PoolError(
                f"The copy of {name} at {destination} differs from the original.",
                remedy="Does something write to the original? Check that machine's disk, too.",
            )
    final = shlex.quote(destination.final(name))
    await destination.machine.run(f"mv -f {shlex.quote(part)} {final}")
    return "by rsync" if use_rsync else "by ssh"


async def _by_rsync(path: Path, destination: Destination, progress: Progress) -> None:
    machine = destination.machine
    target = destination.part(path.name)
    argv = ["rsync", "--inplace", "--append-verify", "--info=progress2", "--no-inc-recursive"]
    if machine.ssh is not None:
        argv += ["-s", "-e", shlex.join(machine.ssh_command)]
        target = f"{machine.ssh}:{target}"
    async with _process([*argv, str(path), target]) as process:
        assert process.stdout is not None
        while line := await process.stdout.read(4096):
            for done in _PERCENT.findall(line.replace(b"\r", b"\n")):
                progress(int(done.replace(b",", b"")))
        await _check(process, destination)


async def _by_pipe(path: Path, destination: Destination, start: int, progress: Progress) -> None:
    """Append to what is there."""
    if start > size_of(path):
        start = 0
    part = shlex.quote(destination.part(path.name))
    script = f"cat >>{part}" if start else f"cat >{part}"
    async with _process(destination.machine.argv(script)) as process:
        assert process.stdin is not None
        with path.open("rb") as file, contextlib.suppress(ConnectionError):
            file.seek(start)
            sent = start
            while data := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                process.stdin.write(data)
                await process.stdin.drain()
                sent += len(data)
                progress(sent)
            process.stdin.close()
        await _check(process, destination)


@contextlib.asynccontextmanager
async def _process(argv: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A child that ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _check(process: asyncio.subprocess.Process, destination: Destination) -> None:
    assert process.stderr is not None
    reason = (await process.stderr.read()).decode("utf-8", "replace").strip()
    if await process.wait():
        raise PoolError(
            f"The transfer to {destination} broke off: {reason[-300:] or 'no reason given'}.",
            remedy="Run the same command again: it goes on where it was.",
        )
