"""An emulated link: delay relays before a pool's workers or its server, in a process of their own.

Invariant: the relays share no event loop with the proxy, so that a busy proxy does not make the
link slower than it says.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import specproxy
from specproxy.errors import PoolError
from specproxy.pool.processes import ChildProcess


class Link:
    """One relay per port, all with the same round trip."""

    def __init__(self, worker_ports: Sequence[int], rtt_ms: float, log_path: Path) -> None:
        self._worker_ports = tuple(worker_ports)
        self._rtt_ms = rtt_ms
        self._log_path = log_path
        self._process: ChildProcess | None = None
        self.ports: tuple[int, ...] = ()

    @property
    def rtt_ms(self) -> float:
        return self._rtt_ms

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        """Change the round trip for bytes that come from now on."""
        assert self._process is not None
        self._process.stdin.write(f"{rtt_ms}\n".encode())
        if not await self._process.stdout.readline():
            raise PoolError(f"The delay relay has died:\n{self._process.log_tail()}\n")
        self._rtt_ms = rtt_ms

    async def __aenter__(self) -> Self:
        package_root = Path(specproxy.__file__).parent.parent
        self._process = await ChildProcess.start(
            "the delay relay",
            [
                sys.executable,
                "-m",
                "specproxy.pool.relay",
                f"--rtt-ms={self._rtt_ms}",
                *(f"127.0.0.1:{port}" for port in self._worker_ports),
            ],
            self._log_path,
            env={"PYTHONPATH": str(package_root)},
            pipes=True,
        )
        try:
            line = await self._process.stdout.readline()
            if not line:
                raise PoolError(f"The delay relay did not start:\n{self._process.log_tail()}\n")
            self.ports = tuple(json.loads(line))
        except BaseException:
            await self._process.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        await self._process.aclose()
