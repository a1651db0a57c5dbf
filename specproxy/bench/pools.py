"""The arms of a benchmark on the demo pool: a pool for each, side by side, on one machine.

Idle servers and workers block without using a core, so pools that wait do not slow the one that
is measured, and the arms can be asked in turn.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.proxies import before
from specproxy.errors import SetupError, TargetError
from specproxy.llama.location import find_libraries
from specproxy.pool.binaries import LlamaBinaries, find_binaries
from specproxy.pool.build import ensure_build
from specproxy.pool.demo import DemoPool, Mode, PoolOptions
from specproxy.pool.models import DemoModels, ensure_models
from specproxy.progress import Step
from specproxy.settings import Settings, TargetSettings, load
from specproxy.target.client import TargetClient

_TITLES: dict[Mode, str] = {
    "plain": "the target alone",
    "draft": "the target with its own draft",
    "ngram": "the target that takes seeds",
    "slots": "the target with slots to spare",
    "coordinator": "the coordinator",
}


Way = Literal["seeding", "fanout", "coordinator"]
"""How the proxy speeds its target up."""
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
    ways: Sequence[Way] = ("seeding",),
    draft_ns: Sequence[int] = (),
    num_clients: int = 1,
    groups: Sequence[int] = (1,),
    warm: Warming = "auto",
) -> AsyncIterator[list[Arm]]:
    """The target alone, with its own draft (once for each of `draft_ns`), and behind the proxy
    (once for each of `ways`).

    The proxy's settings are the defaults, with what SPECPROXY_* says.

    Args:
        num_clients: conversations that each server must be able to hold at once.
        groups: of the coordinator, an arm for each.
        warm: `always` has the proxies warm their lengths on a link where that does not pay, for
            it will not stay as it is.

    Raises:
        PoolError: a pool did not come up, died meanwhile, or takes no seeds.
    """
    pools: list[DemoPool] = []
    async with AsyncExitStack() as stack:

        async def start(
            mode: Mode, draft_tokens: int = 16, groups: int = 1
        ) -> tuple[DemoPool, TargetClient]:
            title = f"Starting {_TITLES[mode]}"
            options = PoolOptions(
                rtt_ms=rtt_ms,
                mode=mode,
                draft_tokens=draft_tokens,
                groups=groups,
                num_user_slots=max(2, num_clients),
            )
            with Step(console, title) as step:
                pool = DemoPool(
                    parts.binaries,
                    parts.models,
                    options,
                    progress=lambda what, _: step.update(f"[{what}]"),
                )
                pools.append(await stack.enter_async_context(pool))
            client = TargetClient(TargetSettings(url=pool.url))
            return pool, await stack.enter_async_context(client)

        async def proxied(how: str, pool: DemoPool, server: TargetClient) -> Arm:
            settings = _proxy_settings(parts, pool, warm)
            running = await stack.enter_async_context(before(settings, console))
            label = f"specproxy ({how})"
            return Arm(
                "specproxy", label, running.front, server, ready_s=running.ready_s, link=pool
            )

        pool, server = await start("plain")
        arms = [Arm("target", "target alone", server, server, link=pool)]
        for draft_n in draft_ns:
            pool, server = await start("draft", draft_n)
            label = f"own draft, n={draft_n}"
            arms.append(Arm("native", label, server, server, draft_n, link=pool))
        if "seeding" in ways:
            arms.append(await proxied("seeding", *await start("ngram")))
        if "fanout" in ways:
            arms.append(await proxied("fanout", *await start("slots")))
        for count in groups if "coordinator" in ways else ():
            label = "coordinator" if count == 1 else f"coordinator, {count} groups"
            arms.append(await proxied(label, *await start("coordinator", groups=count)))
        try:
            yield arms
        except TargetError:
            for pool in pools:
                pool.check()  # a part that died is the better explanation
            raise


def _proxy_settings(parts: DemoParts, pool: DemoPool, warm: Warming) -> Settings:
    wanted: dict[str, Any] = {
        "target": {"url": pool.url},
        "draft": {
            "model": str(parts.models.draft),
            "num_sequences": max(4, 2 * pool.options.num_user_slots),
        },
        "listen": {"host": "127.0.0.1", "port": 0},
    }
    if warm == "always":
        wanted["seeding"] = {"warm": warm}
    return load(None, **wanted)
