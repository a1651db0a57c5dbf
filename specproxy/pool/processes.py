"""Child processes of a pool.

Invariant: a child never outlives us. It is stopped by `aclose`, in whatever way the block around
it ends; and should we die without a word (kill -9), the kernel kills it (`pool.tether`, Linux).
The kernel watches the thread that started the child: start it from one that lives as long.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from specproxy.core.tasks import spawn
from specproxy.errors import PoolError
from specproxy.pool import tether

GRACE_S = 3.0
_POLL_S = 0.05
_TAIL_LINES = 12


class ChildProcess:
    """One running command, its output in a log file.

    Attributes:
        name: for messages.
        log_path: where standard error goes, and standard output unless it is a pipe.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process

    def __repr__(self) -> str:
        state = "running" if self.alive else f"exit {self._process.returncode}"
        return f"<ChildProcess {self.name} pid={self.pid} {state}>"

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        log_path: Path,
        *,
        env: Mapping[str, str | None] | None = None,
        pipes: bool = False,
    ) -> "ChildProcess":
        """Start `command`, whose first item is an absolute path.

        Args:
            env: variables on top of our own; None takes one away.
            pipes: standard input and output are pipes; otherwise input is empty.
        """
        variables = {**os.environ, **(env or {})}
        tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command]
        with log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *tethered,
                stdin=asyncio.subprocess.PIPE if pipes else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if pipes else log,
                stderr=log,
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,  # Ctrl-C reaches us alone; we end them in our order
            )
        return cls(name, process, log_path)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    def log_tail(self, num_lines: int = _TAIL_LINES) -> str:
        """The last lines of the log."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-num_lines:])

    async def wait_until(
        self,
        ready: Callable[[], Awaitable[bool]],
        *,
        timeout_s: float,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Wait until `ready` says so.

        Args:
            progress: called now and then with the seconds waited.

        Raises:
            PoolError: the process died, or was not ready in time; with the log's last lines.
        """
        start_s = time.monotonic()
        while not await ready():
            waited_s = time.monotonic() - start_s
            if not self.alive:
                raise self._error(f"ended with code {self._process.returncode} at its start")
            if waited_s > timeout_s:
                raise self._error(f"was not ready after {timeout_s:g} s")
            if progress is not None:
                progress(waited_s)
            await asyncio.sleep(_POLL_S)

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit code, negative for a signal."""
        return await self._process.wait()

    async def aclose(self, *, grace_s: float = GRACE_S) -> None:
        """End the process and its group, with force after `grace_s`. Idempotent.

        A cancelled caller still gets its CancelledError, but only after the process is gone.
        """
        ending = spawn(self._end(grace_s), name=f"end {self.name}")
        try:
            await asyncio.shield(ending)
        finally:
            while not ending.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([ending])

    async def _end(self, grace_s: float) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _error(self, what: str) -> PoolError:
        return PoolError(
            f"{self.name} {what}. Its log ends with:\n{self.log_tail()}\n",
            remedy=f"The whole log is {self.log_path}.",
        )


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_listening(port: int) -> bool:
    """Whether somebody listens on the TCP port, found out without connecting (Linux).

    A bare connection can end an RPC worker, so a worker must not be asked that way.
    """
    listen_state, wanted = "0A", f":{port:04X}"
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(FileNotFoundError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == listen_state and local.endswith(wanted):
                    return True
    return False
