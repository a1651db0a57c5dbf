"""A small pool whose parts can be killed, frozen and started again, on the same ports."""

import os
import signal
from pathlib import Path

import aiohttp

from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import ChildProcess, free_ports, is_listening

START_S = 120.0
OPTIONS = PoolOptions(rtt_ms=0.0, num_user_slots=1, context_tokens=2048)


class FragilePool:
    """Two workers and a stock llama-server that takes seeds, without a link between.

    Attributes:
        workers: in the order of their layers.
        server: the llama-server.
    """

    def __init__(self, binaries: LlamaBinaries, models: DemoModels, folder: Path) -> None:
        self.models = models
        self._binaries = binaries
        self._folder = folder
        self._flags = DemoPool(binaries, models, OPTIONS)._server_arguments
        self._port, *self._worker_ports = free_ports(3)
        self.workers: list[ChildProcess] = []
        self.server: ChildProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """All parts, until the server is healthy."""
        for port in self._worker_ports:
            command = [self._binaries.worker, "-H", "127.0.0.1", "-p", str(port), "-t", "1"]
            worker = await ChildProcess.start(
                f"worker {port}", command, self._folder / f"{port}.log"
            )
            self.workers.append(worker)

            async def listening(port: int = port) -> bool:
                return is_listening(port)

            await worker.wait_until(listening, timeout_s=START_S)
        command = [self._binaries.server, *self._flags(self._port, self._worker_ports)]
        self.server = await ChildProcess.start(
            "llama-server", command, self._folder / "llama-server.log"
        )
        async with aiohttp.ClientSession() as session:

            async def healthy() -> bool:
                try:
                    async with session.get(f"{self.url}/health") as response:
                        return response.status == 200
                except aiohttp.ClientError:
                    return False

            await self.server.wait_until(healthy, timeout_s=START_S)

    async def stop(self) -> None:
        """Whatever of it runs still."""
        parts = [*self.workers, *([self.server] if self.server else [])]
        self.workers, self.server = [], None
        for part in parts:
            if part.alive:
                os.kill(part.pid, signal.SIGCONT)  # a frozen process would not hear
            await part.aclose()

    def signal_worker(self, number: signal.Signals) -> None:
        """To the one with the last layers."""
        os.kill(self.workers[-1].pid, number)
