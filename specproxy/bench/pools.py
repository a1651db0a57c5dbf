"""The arms of a benchmark on the demo pool: a pool for each, side by side, on one machine.

Idle servers and workers block without using a core, so pools that wait do not slow the one that
is measured, and the arms can be asked in turn.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from yarl import URL

from specproxy.bench.arms import Arm
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.proxies import before
from specproxy.bench.recorded import RecordedDrafter, recording_of
from specproxy.draft.protocol import Drafter
from specproxy.errors import SetupError, TargetError
from specproxy.llama.location import find_libraries
from specproxy.pool.binaries import LlamaBinaries, find_binaries
from specproxy.pool.build import ensure_build
from specproxy.pool.demo import DemoPool, Mode, PoolOptions
from specproxy.pool.link import Link
from specproxy.pool.models import DemoModels, ensure_models
from specproxy.progress import Step
from specproxy.settings import Settings, TargetSettings, load_one_target
from specproxy.target.client import TargetClient

_TITLES: dict[Mode, str] = {
    "plain": "the target alone",
    "draft": "the target with its own draft",
    "ngram": "the target that takes seeds",
    "ngram-draft": "the target that takes seeds and has its own draft",
    "slots": "the target with slots to spare",
    "coordinator": "the coordinator",
}


Warming = Literal["auto", "always"]


@dataclass(frozen=True, slots=True)
class DemoParts:
    """What a demo pool is made of."""

    binaries: LlamaBinaries
    models: DemoModels


def demo_parts(console: Console) -> DemoParts:
    """llama.cpp and the models, compiled and fetched where they are not there yet. Blocks.

    Raises:
        SetupError: they cannot be had.
    """
    try:
        binaries = find_binaries()
        find_libraries()
    except SetupError:
        binaries = ensure_build(console)
    return DemoParts(binaries, ensure_models(console=console))


@asynccontextmanager
async def demo_arms(
    parts: DemoParts,
    console: Console,
    *,
    rtt_ms: float,
    kinds: Sequence[ProxyKind] = (ProxyKind("seeding"),),
    front_rtt_ms: float = 0.0,
    draft_ns: Sequence[int] = (),
    num_clients: int = 1,
    warm: Warming = "auto",
) -> AsyncIterator[list[Arm]]:
    """The target alone, with its own draft (once for each of `draft_ns`), and behind each kind of
    proxy.

    The proxy's settings are the defaults, with what SPECPROXY_* says.

    Args:
        kinds: of proxies, an arm each.
        front_rtt_ms: round trip to the servers for clients of their own, where there is no proxy.
        num_clients: conversations that each server must be able to hold at once.
        warm: `always` has the proxies warm their lengths on a link where that does not pay, for
            it will not stay as it is.

    Raises:
        PoolError: a pool did not come up, died meanwhile, or takes no seeds.
    """
    async with AsyncExitStack() as stack:
        builder = _Builder(parts, console, stack, rtt_ms, num_clients, warm)
        arms = [await builder.direct("target", front_rtt_ms)]
        arms += [await builder.direct("native", front_rtt_ms, n) for n in draft_ns]
        arms += [await builder.proxied(kind) for kind in kinds]
        try:
            yield arms
        except TargetError:
            for pool in builder.pools:
                pool.check()  # a part that died is the better explanation
            raise


class _Builder:
    """Starts arms, each with a pool of its own; all end with `stack`."""

    def __init__(
        self,
        parts: DemoParts,
        console: Console,
        stack: AsyncExitStack,
        rtt_ms: float,
        num_clients: int,
        warm: Warming,
    ) -> None:
        self.pools: list[DemoPool] = []
        self._parts = parts
        self._console = console
        self._stack = stack
        self._rtt_ms = rtt_ms
        self._num_clients = num_clients
        self._warm = warm
        self._recording = recording_of(parts.models.draft)

    async def direct(
        self, name: Literal["target", "native"], front_rtt_ms: float, draft_n: int | None = None
    ) -> Arm:
        """A server that its clients reach without a proxy."""
        pool = await self._pool("plain" if draft_n is None else "draft", draft_tokens=draft_n or 0)
        server = await self._client(pool.url)
        front = server
        if front_rtt_ms:
            front = await self._client(await self._far(pool, front_rtt_ms))
        label = "target alone" if draft_n is None else f"own draft, n={draft_n}"
        return Arm(name, label, front, server, draft_n, link=pool)

    async def proxied(self, kind: ProxyKind) -> Arm:
        """A server behind the proxy."""
        pool = await self._pool(kind.pool_mode, draft_tokens=kind.draft_n or 0, groups=kind.groups)
        server = await self._client(pool.url)
        url = await self._far(pool, kind.front_rtt_ms) if kind.front_rtt_ms else pool.url
        recorded: list[RecordedDrafter] = []

        def drafting(real: Drafter) -> Drafter:
            if kind.recorded_ms is None:
                return real
            recorded.append(RecordedDrafter(real, self._recording, kind.recorded_ms / 1e3))
            return recorded[0]

        running = await self._stack.enter_async_context(
            before(self._settings(url, pool, kind), self._console, drafting=drafting)
        )
        return Arm(
            "specproxy",
            kind.label,
            running.front,
            server,
            kind.draft_n,
            ready_s=running.ready_s,
            link=pool,
            kind=kind,
            recorded=recorded[0] if recorded else None,
        )

    async def _pool(self, mode: Mode, *, draft_tokens: int, groups: int = 1) -> DemoPool:
        options = PoolOptions(
            rtt_ms=self._rtt_ms,
            mode=mode,
            draft_tokens=draft_tokens,
            groups=groups,
            num_user_slots=max(2, self._num_clients),
        )
        with Step(self._console, f"Starting {_TITLES[mode]}") as step:
            pool = DemoPool(
                self._parts.binaries,
                self._parts.models,
                options,
                progress=lambda what, _: step.update(f"[{what}]"),
            )
            self.pools.append(await self._stack.enter_async_context(pool))
        return pool

    async def _far(self, pool: DemoPool, rtt_ms: float) -> str:
        """The server's URL at the far end of a link."""
        port = URL(pool.url).port
        assert port is not None, "a pool names its port"
        link = Link([port], rtt_ms, pool.directory / "front.log")
        await self._stack.enter_async_context(link)
        return f"http://127.0.0.1:{link.ports[0]}"

    async def _client(self, url: str) -> TargetClient:
        client = TargetClient(TargetSettings(url=url))
        return await self._stack.enter_async_context(client)

    def _settings(self, url: str, pool: DemoPool, kind: ProxyKind) -> Settings:
        warm = {"warm": "always"} if self._warm == "always" else {}
        wanted: dict[str, Any] = {
            "target": {"url": url},
            "draft": {
                "model": str(self._parts.models.draft),
                "num_sequences": max(16, 2 * pool.options.num_user_slots),
            },
            "listen": {"host": "127.0.0.1", "port": 0},
            "seeding": warm,
            "fanout": warm,
        }
        return load_one_target(**wanted)
