"""Where the two come from: pools on this machine, or servers that run already."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.console import Console

from specproxy.bench.kinds import Way
from specproxy.bench.pools import DemoParts
from specproxy.bench.proxies import before
from specproxy.equivalence.check import Pair
from specproxy.pool.demo import DemoPool, Mode, PoolOptions
from specproxy.progress import Step
from specproxy.settings import TargetSettings, load_one_target
from specproxy.target.client import TargetClient

NUM_SLOTS = 4
"""For the check of four at once; one more is for seeds."""
CONTEXT_TOKENS = 1024
"""Small, so that filling it does not take long."""
_SPECULATING: dict[Way, Mode] = {
    "seeding": "ngram",
    "seeding-on-draft": "ngram-draft",
    "fanout": "slots",
    "coordinator": "coordinator",
}
_CONTROL: dict[Way, Mode] = {
    "seeding": "plain",
    "seeding-on-draft": "plain",
    "fanout": "plain",
    "coordinator": "coordinator",
}
"""The same server: llama-server without its n-gram pool, a coordinator nobody drafts for."""


@asynccontextmanager
async def demo_pair(parts: DemoParts, way: Way, console: Console) -> AsyncIterator[Pair]:
    """The proxy before a demo pool on a link without delay, and a second pool as the control.

    Raises:
        PoolError: a pool did not come up, or the proxy does not speculate.
    """
    async with AsyncExitStack() as stack:
        speculating = await _start(parts, _SPECULATING[way], stack, console)
        control = await _start(parts, _CONTROL[way], stack, console)
        settings = load_one_target(
            target={"url": speculating.url},
            draft={"model": str(parts.models.draft), "num_sequences": 2 * NUM_SLOTS},
            listen={"host": "127.0.0.1", "port": 0},
        )
        running = await stack.enter_async_context(before(settings, console))
        client = TargetClient(TargetSettings(url=control.url))
        yield Pair(way, running.front, await stack.enter_async_context(client))


async def _start(parts: DemoParts, mode: Mode, stack: AsyncExitStack, console: Console) -> DemoPool:
    options = PoolOptions(
        rtt_ms=0.0, mode=mode, num_user_slots=NUM_SLOTS, context_tokens=CONTEXT_TOKENS
    )
    with Step(console, f"Starting a pool ({mode})") as step:
        pool = DemoPool(
            parts.binaries,
            parts.models,
            options,
            progress=lambda what, _: step.update(f"[{what}]"),
        )
        return await stack.enter_async_context(pool)


@asynccontextmanager
async def own_pair(target: TargetSettings, control: TargetSettings) -> AsyncIterator[Pair]:
    """Two servers of the user's own."""
    async with TargetClient(target) as front, TargetClient(control) as alone:
        yield Pair(front.name, front, alone)
