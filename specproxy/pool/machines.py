"""Machines of a pool: this one, and those reached over ssh. Both run scripts of a POSIX shell.

Invariant: a script is sent on standard input and values in it are quoted, so that no login shell
reads them; a started process outlives us and is known by its pid *and* its start time.
"""

import asyncio
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specproxy.errors import PoolError, SetupError

SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_SSH_FAILED = 255
_POOLS = '"${XDG_CACHE_HOME:-$HOME/.cache}"/specproxy/pools'
_STATE = """
if [ -r /proc/$pid/stat ]; then sed 's/.*) //' /proc/$pid/stat 2>/dev/null | cut -d' ' -f1,20
else ps -o stat=,lstart= -p $pid 2>/dev/null || true; fi
"""
"""Prints the state's letter and when the process `$pid` started; nothing if there is none."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process on a machine.

    Attributes:
        mark: when it started, in the machine's own words; tells it from another of that pid.
        log: absolute path there.
    """

    pid: int
    mark: str
    log: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Where commands run.

    Attributes:
        ssh: ssh's destination; None: this machine.
        ssh_command: the client and its options.
    """

    ssh: str | None = None
    ssh_command: tuple[str, ...] = ("ssh", *SSH_OPTIONS)

    @property
    def name(self) -> str:
        return self.ssh or "this machine"

    def argv(self, script: str) -> tuple[str, ...]:
        """A command that runs a simple script, its standard input free for other things."""
        if self.ssh is None:
            return ("/bin/sh", "-c", script)
        return (*self.ssh_command, self.ssh, script)

    async def run(self, script: str, *, timeout_s: float = 30.0, check: bool = True) -> str:
        """Run a shell script; its standard output.

        Args:
            check: a status other than 0 is an error.

        Raises:
            PoolError: it failed, or took too long.
            SetupError: there is no ssh here.
        """
        argv = ("/bin/sh", "-s") if self.ssh is None else (*self.ssh_command, self.ssh, "sh -s")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise SetupError(
                f"There is no {argv[0]} here.",
                remedy="Install it: `apt-get install openssh-client`.",
            ) from error
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(script.encode())
        except TimeoutError as error:
            raise PoolError(f"{self.name} did not finish within {timeout_s:g} s.") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        unreachable = self.ssh is not None and process.returncode == _SSH_FAILED
        if unreachable or (check and process.returncode):
            reason = err.decode("utf-8", "replace").strip()[-500:]
            raise PoolError(
                f"{self.name}: {reason or f'exit code {process.returncode}'}.",
                remedy=f"Check that `ssh {self.ssh}` works without a password." if self.ssh else "",
            )
        return out.decode("utf-8", "replace")

    async def start(
        self, argv: Sequence[str], *, pool: str, name: str, env: Mapping[str, str] | None = None
    ) -> Started:
        """Start `argv` in the background, its output in the pool's log folder there.

        Raises:
            PoolError: it could not be started.
        """
        variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in (env or {}).items())
        command = f"{variables} nohup {shlex.join(argv)}".strip()
        answer = await self.run(f"""
            set -e
            umask 077
            folder={_POOLS}/{shlex.quote(pool)}
            mkdir -p "$folder"
            log="$folder"/{shlex.quote(name)}.log
            command -v {shlex.quote(argv[0])} >/dev/null || {{
                echo {shlex.quote(argv[0])} is not there >&2; exit 1; }}
            if command -v setsid >/dev/null; then {variables} setsid {shlex.join(argv)} \\
                </dev/null >"$log" 2>&1 &
            else {command} </dev/null >"$log" 2>&1 & fi
            pid=$!
            echo $pid
            echo "$log"
            {_STATE}
        """)
        lines = answer.splitlines()
        if len(lines) != 3:
            raise PoolError(f"{name} on {self.name} ended at once.", remedy="Its log tells more.")
        return Started(int(lines[0]), lines[2].partition(" ")[2], lines[1])

    async def is_running(self, process: Started) -> bool:
        """Whether that very process still runs."""
        answer = await self.run(f"pid={process.pid}\n{_STATE}", check=False)
        state, _, mark = answer.strip().partition(" ")
        return bool(state) and state[0] not in "ZX" and mark.strip() == process.mark.strip()

    async def signal(self, process: Started, name: str) -> None:
        """Send a signal to the process, if it is that one still."""
        if await self.is_running(process):
            await self.run(f"kill -{name} {process.pid}", check=False)

    async def log_lines(self, process: Started, *, pattern: str | None = None) -> list[str]:
        """The log's last lines, or all that match a basic regular expression."""
        log = shlex.quote(process.log)
        grep = f"tail -n 12 {log}" if pattern is None else f"grep -e {shlex.quote(pattern)} {log}"
        return (await self.run(grep, check=False)).splitlines()

    async def rpc_version(self, program: str, device: str | None) -> tuple[int, ...] | None:
        """The protocol of an RPC server there, which says it before it fails to listen at an
        address that no machine has; None if it does not."""
        argv = [program, "-H", "192.0.2.1", "-p", "1", *(("-d", device) if device else ())]
        answer = await self.run(f"{shlex.join(argv)} 2>&1", check=False)
        found = re.search(r"RPC server v(\d+)\.(\d+)\.(\d+)", answer)
        return None if found is None else tuple(map(int, found.groups()))
