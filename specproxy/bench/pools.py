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
from specproxy.errors import SetupError, TargetError
from specproxy.llama.location import find_libraries
from specproxy.pool.binaries import LlamaBinaries, find_binaries
from specproxy.pool.build import ensure_build
from specproxy.pool.demo import DemoPool, Mode, PoolOptions
from specproxy.pool.models import DemoModels, ensure_models
from specproxy.progress import Step
from specproxy.serve import loaded, proxy, speculating
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient

_TITLES: dict[Mode, str] = {
    "plain": "the target alone",
    "draft": "the target with its own draft",
    "ngram": "the target that takes seeds",
    "coordinator": "the coordinator",
}


Way = Literal["seeding", "coordinator"]
"""How the proxy speeds its target up."""


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
    way: Way = "seeding",
    draft_ns: Sequence[int] = (),
    num_clients: int = 1,
    groups: Sequence[int] = (1,),
) -> AsyncIterator[list[Arm]]:
    """The target alone, with its own draft (once for each of `draft_ns`), and behind the proxy.

    The proxy's settings are the defaults, with what SPECPROXY_* says.

    Args:
        num_clients: conversations that each server must be able to hold at once.
        groups: of the coordinator, an arm for each.

    Raises:
        PoolError: a pool did not come up, died meanwhile, or takes no seeds.
    """
    pools: list[DemoPool] = []
    async with AsyncExitStack() as stack:

        async def start(mode: Mode, draft_tokens: int = 16, groups: int = 1) -> TargetClient:
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
            return await stack.enter_async_context(TargetClient(TargetSettings(url=pool.url)))

        server = await start("plain")
        arms = [Arm("target", "target alone", server, server)]
        for draft_n in draft_ns:
            server = await start("draft", draft_n)
            arms.append(Arm("native", f"own draft, n={draft_n}", server, server, draft_n))
        if way == "seeding":
            server = await start("ngram")
            arms.append(await _proxied(stack, parts, console, pools[-1], server, "seeding"))
        for count in groups if way == "coordinator" else ():
            server = await start("coordinator", groups=count)
            label = "coordinator" if count == 1 else f"coordinator, {count} groups"
            arms.append(await _proxied(stack, parts, console, pools[-1], server, label))
        try:
            yield arms
        except TargetError:
            for pool in pools:
                pool.check()  # a part that died is the better explanation
            raise


async def _proxied(
    stack: AsyncExitStack,
    parts: DemoParts,
    console: Console,
    pool: DemoPool,
    server: TargetClient,
    how: str,
) -> Arm:
    wanted: dict[str, Any] = {
        "target": {"url": pool.url},
        "draft": {
            "model": str(parts.models.draft),
            "num_sequences": max(4, 2 * pool.options.num_user_slots),
        },
        "listen": {"host": "127.0.0.1", "port": 0},
    }
    settings = load(None, **wanted)
    drafter = await stack.enter_async_context(loaded(settings.draft, console))
    running = await stack.enter_async_context(proxy(settings, drafter))
    with Step(console, "The proxy learns its target and warms lengths") as step:
        await speculating(running.route, step)
        ready_s = step.elapsed_s
    front = await stack.enter_async_context(TargetClient(TargetSettings(url=running.url)))
    return Arm("specproxy", f"specproxy ({how})", front, server, ready_s=ready_s)
