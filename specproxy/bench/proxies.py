"""The proxy of an arm: in this process, before a server that runs already."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.console import Console

from specproxy.draft.protocol import Drafter
from specproxy.progress import Step
from specproxy.route import Mode
from specproxy.serve import loaded, proxy, speculating
from specproxy.settings import Settings, TargetSettings
from specproxy.target.client import TargetClient

Drafting = Callable[[Drafter], Drafter]


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that speculates.

    Attributes:
        front: its client.
        mode: what it found that its target allows.
        ready_s: how long it took until it speculated, its warm-up included.
    """

    front: TargetClient
    mode: Mode
    ready_s: float


@asynccontextmanager
async def before(
    settings: Settings, console: Console, *, drafting: Drafting | None = None
) -> AsyncIterator[RunningProxy]:
    """The proxy before `settings.target`, ready.

    Args:
        drafting: makes the drafter that it uses of the one that is configured.

    Raises:
        ConfigError, SetupError: its draft model cannot be loaded.
        PoolError: it will not speculate, and why.
    """
    async with loaded(settings.draft, console) as drafter:
        if drafting is not None and drafter is not None:
            drafter = drafting(drafter)
        async with proxy(settings, drafter) as running:
            with Step(console, "The proxy learns its target and warms lengths") as step:
                await speculating(running.route, step)
                ready_s = step.elapsed_s
            own = TargetSettings(url=running.url, api_key=settings.listen.api_key)
            async with TargetClient(own) as front:
                yield RunningProxy(front, running.route.mode, ready_s)
