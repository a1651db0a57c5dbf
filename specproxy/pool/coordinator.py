"""The coordinator as a child process: started, watched, started again.

libllama aborts its process when a worker's connection fails, so the engine lives in a process of
its own. Invariant: its address and its key stay the same from one life to the next, and it never
outlives us.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import Self

import structlog

import specproxy
from specproxy.core.tasks import spawn, stop
from specproxy.pool.processes import ChildProcess, free_ports
from specproxy.pool.scratch import scratch_folder
from specproxy.settings import OTHERS, PREFIX, CoordinatorSettings

log = structlog.get_logger(__name__)

FIRST_REST_S = 0.5
LONGEST_REST_S = 15.0
"""Rests between two lives that ended early: short ones first."""
_SAID = "specproxy: error: "
SETTLED_S = 30.0
"""A life that lasted so long was a good one."""


class CoordinatorStart:
    """How a coordinator is started on a loopback port: its command, file and variables.

    Args:
        directory: where its settings and its log go.
        key: what its clients must send; None: nothing.
    """

    def __init__(
        self, settings: CoordinatorSettings, port: int, directory: Path, *, key: str | None = None
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log_path = directory / "coordinator.log"
        self._settings_path = directory / "coordinator.json"  # YAML, too
        self._settings = settings
        self._port = port
        self._key = key

    async def __call__(self) -> ChildProcess:
        """Start it."""
        text = json.dumps({"coordinator": self._settings.model_dump(mode="json")})
        self._settings_path.write_text(text, encoding="utf-8")
        ours = {name: None for name in os.environ if name.startswith(PREFIX) and name not in OTHERS}
        package_root = str(Path(specproxy.__file__).parent.parent)
        return await ChildProcess.start(
            "the coordinator",
            [
                *(sys.executable, "-m", "specproxy.cli", "coordinator"),
                *("--config", self._settings_path),
                *("--host", "127.0.0.1", "--port", str(self._port)),
            ],
            self.log_path,
            env={**ours, "PYTHONPATH": package_root, f"{PREFIX}LISTEN__API_KEY": self._key},
        )


class Coordinator:
    """A coordinator on this machine, brought back whenever it dies. Use as a context manager.

    Attributes:
        url: its base URL, the same in every life; nobody may listen there yet.
        key: what it must be sent. It is for who started it alone: web pages and other users of
            this machine may find its port.
        num_starts: how often it was started.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._directory = scratch_folder()
        (port,) = free_ports(1)
        self.key = secrets.token_urlsafe(32)
        self._start = CoordinatorStart(settings, port, self._directory, key=self.key)
        self._child: ChildProcess | None = None
        self._watching: asyncio.Task[None] | None = None
        self.num_starts = 0

    def __repr__(self) -> str:
        return f"<Coordinator {self.url} starts={self.num_starts} {self._child!r}>"

    @property
    def url(self) -> str:
        return self._start.url

    @property
    def pid(self) -> int | None:
        """Of its present life."""
        return self._child.pid if self._child is not None and self._child.alive else None

    async def __aenter__(self) -> Self:
        self._watching = spawn(self._watch(), name="watch the coordinator")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._watching is not None
        try:
            await stop(self._watching)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _watch(self) -> None:
        rest_s = FIRST_REST_S
        while True:
            started_s = time.monotonic()
            code = await self._live()
            lasted_s = time.monotonic() - started_s
            rest_s = FIRST_REST_S if lasted_s > SETTLED_S else min(2 * rest_s, LONGEST_REST_S)
            log.error(
                "the coordinator has ended and will be started again",
                reason=self._last_words() or f"exit code {code}",
                after_s=round(lasted_s, 1),
                rest_s=rest_s,
                log_file=str(self._start.log_path),
            )
            await asyncio.sleep(rest_s)

    async def _live(self) -> int:
        """One life, from start to end; returns the exit code."""
        self.num_starts += 1
        self._child = child = await self._start()
        try:
            return await child.wait()
        finally:
            await child.aclose()

    def _last_words(self) -> str:
        """What it said itself of its end; empty where libllama ended it."""
        with contextlib.suppress(OSError):
            assert self._child is not None
            for line in reversed(self._child.log_tail(4).splitlines()):
                if line.startswith(_SAID):
                    return line.removeprefix(_SAID)
        return ""
