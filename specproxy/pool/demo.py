"""A whole RPC pool on this machine: workers, an emulated link, and a stock llama-server.

    llama-server -> delay relay -> ggml-rpc-server   (one relay and worker per RPC device)

Invariant: whatever was started is gone when the block ends, also when starting fails half-way;
nothing listens beyond loopback. One ggml thread per process, for ggml's threads spin.
"""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import aiohttp

from specproxy.core.worth import N_MATCH, N_MAX
from specproxy.errors import PoolError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.coordinator import CoordinatorStart
from specproxy.pool.link import Link
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import ChildProcess, free_ports, is_listening
from specproxy.pool.scratch import scratch_folder
from specproxy.settings import CoordinatorSettings

Mode = Literal["ngram", "ngram-draft", "slots", "draft", "plain", "coordinator"]
SPARE_SLOTS = 5
"""Slots for each conversation in mode `slots`."""
Progress = Callable[[str, float], None]
"""Called with what is awaited and the seconds waited so far."""

_WORKER_START_S = 20.0
_SERVER_START_S = 300.0


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How a demo pool is built.

    Attributes:
        rtt_ms: round trip from the server to each worker.
        mode: the server's own speculation. `ngram` takes seeds, `draft` is llama-server's draft
            model (`-md`), `ngram-draft` takes seeds and uses its draft model where there is none;
            `plain` decodes token by token, and so does `slots`, which has slots to spare.
            `coordinator` is no llama-server: our own target over the same workers.
        num_user_slots: conversations at once; one more slot is kept for seeds.
        context_tokens: KV cells, shared by all slots.
        n_match, n_min, n_max: of ngram-mod: key length, shortest and longest draft.
        draft_tokens: of `draft` and `ngram-draft`: how many tokens each round drafts.
        groups, output_local: of `coordinator`: see its settings.
        port: of the llama-server; 0: any free one.
        extra_args: appended to llama-server's command line.
    """

    rtt_ms: float = 80.0
    mode: Mode = "ngram"
    num_workers: int = 2
    num_user_slots: int = 2
    context_tokens: int = 8192
    n_match: int = N_MATCH
    n_min: int = 1
    n_max: int = N_MAX
    draft_tokens: int = 16
    groups: int = 1
    output_local: bool = True
    port: int = 0
    extra_args: tuple[str, ...] = ()

    @property
    def num_slots(self) -> int:
        """Of the llama-server."""
        if self.mode == "slots":
            return SPARE_SLOTS * self.num_user_slots
        return self.num_user_slots + 1


class DemoPool:
    """Two or more RPC workers behind relays, and one llama-server that runs the target on them.

    Attributes:
        options: what it was built with.
        url: the llama-server's base URL, once entered.
        worker_ports: where the workers themselves listen; each serves one client at a time.
        directory: where the logs are; removed at the end unless starting failed.
    """

    def __init__(
        self,
        binaries: LlamaBinaries,
        models: DemoModels,
        options: PoolOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.options = options or PoolOptions()
        self.url = ""
        self.worker_ports: tuple[int, ...] = ()
        self.directory = Path()
        self._binaries = binaries
        self._models = models
        self._progress = progress
        self._stack = contextlib.AsyncExitStack()
        self._children: list[ChildProcess] = []
        self._link: Link | None = None

    def __repr__(self) -> str:
        return f"<DemoPool {self.url or 'not started'} {self.options.mode} {self.rtt_ms:g} ms>"

    @property
    def rtt_ms(self) -> float:
        return self.options.rtt_ms if self._link is None else self._link.rtt_ms

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        """Change the link while the pool runs."""
        if self._link is None:
            raise PoolError("The pool is not running.")
        await self._link.set_rtt_ms(rtt_ms)

    @property
    def target_model(self) -> Path:
        return self._models.target

    @property
    def draft_model(self) -> Path:
        return self._models.draft

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Of the workers' processes, in the order of their layers."""
        return tuple(child.pid for child in self._children[: len(self.worker_ports)])

    @property
    def relay_ports(self) -> tuple[int, ...]:
        """Where the workers are reached over the emulated link."""
        return () if self._link is None else self._link.ports

    @property
    def server_log(self) -> Path:
        return self.directory / "llama-server.log"

    @property
    def seed_slot(self) -> int:
        """The slot no conversation gets."""
        return self.options.num_user_slots

    def check(self) -> None:
        """Say so if a part of the pool has died.

        Raises:
            PoolError: which part, and the end of its log.
        """
        for child in self._children:
            if not child.alive:
                raise PoolError(f"{child.name} has died. Its log ends with:\n{child.log_tail()}")

    async def __aenter__(self) -> Self:
        self.directory = scratch_folder()
        try:
            self.worker_ports = await self._start_workers()
            link = Link(self.worker_ports, 0.0, self.directory / "relay.log")
            self._link = await self._stack.enter_async_context(link)
            if self.options.mode == "coordinator":
                await self._start_coordinator(link.ports)
            else:
                await self._start_server(link.ports)
            await link.set_rtt_ms(self.options.rtt_ms)  # loading is not what the link is for
        except PoolError:
            await self._stack.aclose()  # the error names the logs, so they stay
            raise
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._stack.aclose()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def _start_workers(self) -> tuple[int, ...]:
        ports = free_ports(self.options.num_workers)
        workers = [
            await self._start(
                f"RPC worker {index}",
                [self._binaries.worker, "-H", "127.0.0.1", "-p", str(port), "-t", "1"],
                f"worker-{index}.log",
            )
            for index, port in enumerate(ports)
        ]
        for worker, port in zip(workers, ports, strict=True):

            async def listening(port: int = port) -> bool:
                return is_listening(port)

            await worker.wait_until(
                listening, timeout_s=_WORKER_START_S, progress=self._report("RPC workers")
            )
        return tuple(ports)

    async def _start_server(self, relay_ports: Sequence[int]) -> None:
        port = self.options.port or free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        server = await self._start(
            "llama-server",
            [self._binaries.server, *self._server_arguments(port, relay_ports)],
            self.server_log.name,
        )
        await self._wait_for(server, url)

    async def _start_coordinator(self, relay_ports: Sequence[int]) -> None:
        options = self.options
        settings = CoordinatorSettings(
            model=self._models.target,
            workers=tuple(f"127.0.0.1:{port}" for port in relay_ports),
            context_tokens=options.context_tokens,
            num_answers=options.num_user_slots,
            groups=options.groups,
            output_local=options.output_local,
            warm="always",  # while the link is quick still
        )
        (port,) = free_ports(1)
        start = CoordinatorStart(settings, port, self.directory)
        child = await start()
        self._keep(child)
        await self._wait_for(child, start.url)

    async def _wait_for(self, server: ChildProcess, url: str) -> None:
        """Until it is healthy."""
        async with aiohttp.ClientSession() as session:

            async def healthy() -> bool:
                try:
                    async with session.get(f"{url}/health") as response:
                        return response.status == 200
                except aiohttp.ClientError:
                    return False

            await server.wait_until(
                healthy, timeout_s=_SERVER_START_S, progress=self._report(server.name)
            )
        self.url = url

    async def _start(self, name: str, command: Sequence[str | Path], log: str) -> ChildProcess:
        child = await ChildProcess.start(name, command, self.directory / log)
        self._keep(child)
        return child

    def _keep(self, child: ChildProcess) -> None:
        self._stack.push_async_callback(child.aclose)
        self._children.append(child)

    def _server_arguments(self, port: int, relay_ports: Sequence[int]) -> list[str]:
        options = self.options
        devices = ",".join(f"RPC{index}" for index in range(len(relay_ports)))
        return [
            *("--model", str(self._models.target), "--host", "127.0.0.1", "--port", str(port)),
            *("--rpc", ",".join(f"127.0.0.1:{relay}" for relay in relay_ports)),
            *("--device", devices, "-ngl", "99", "-t", "1", "--fit", "off"),
            *("-c", str(options.context_tokens), "-np", str(options.num_slots)),
            *("--kv-unified", "--cache-ram", "0"),
            # a round's prompts shall find the slots that hold most of them
            *(() if options.mode == "slots" else ("-sps", "0")),
            *("--no-webui", "--metrics", "--slots", "--props"),
            *self._speculation_arguments(),
            *options.extra_args,
        ]

    def _speculation_arguments(self) -> list[str]:
        options = self.options
        types, arguments = [], []
        if options.mode in ("ngram", "ngram-draft"):
            types.append("ngram-mod")  # asked before a draft model
            arguments += [
                *("--spec-ngram-mod-n-match", str(options.n_match)),
                *("--spec-ngram-mod-n-min", str(options.n_min)),
                *("--spec-ngram-mod-n-max", str(options.n_max)),
            ]
        if options.mode in ("draft", "ngram-draft"):
            types.append("draft-simple")
            arguments += [
                *("--spec-draft-model", str(self._models.draft)),
                *("--spec-draft-n-max", str(options.draft_tokens)),
                *("--spec-draft-device", "none", "--spec-draft-threads", "1"),
            ]
        return ["--spec-type", ",".join(types), *arguments] if types else []

    def _report(self, what: str) -> Callable[[float], None] | None:
        progress = self._progress
        return None if progress is None else lambda waited_s: progress(what, waited_s)
