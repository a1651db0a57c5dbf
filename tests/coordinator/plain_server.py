"""A llama-server on this machine alone: no workers, one thread. What it says is the reference."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import free_ports
from specproxy.pool.processes import ChildProcess


@dataclass(frozen=True)
class PlainServer:
    """Requests to it."""

    session: aiohttp.ClientSession
    url: str
    log_path: Path

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            return await response.json()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and answer."""
        async with self.session.post(self.url + path, json=body) as response:
            return response.status, json.loads(await response.read())


@asynccontextmanager
async def plain_server(
    binaries: LlamaBinaries, model: Path, directory: Path, *arguments: str
) -> AsyncIterator[PlainServer]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    log_path = directory / f"plain-{port}.log"
    command = [
        binaries.server,
        *("-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-t", "1"),
        *("-c", "512", "-np", "1", "--no-webui", "--no-warmup", "--jinja", *arguments),
    ]
    async with aiohttp.ClientSession() as session:
        process = await ChildProcess.start("llama-server", command, log_path)

        async def healthy() -> bool:
            try:
                async with session.get(f"{url}/health") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        try:
            await process.wait_until(healthy, timeout_s=120)
            yield PlainServer(session, url, log_path)
        finally:
            await process.aclose()
