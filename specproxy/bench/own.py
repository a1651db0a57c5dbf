"""The arms of a benchmark on a server of the user's own: as it is, and through the proxy.

Both arms have one server, for nobody starts a second pool for a benchmark. A server with an n-gram
pool learns each answer, and would know it when the other arm asks: there each arm gets prompts of
its own. Any other server can be asked the same prompts for both arms, all read anew.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.proxies import before
from specproxy.bench.runner import Sharing
from specproxy.route import Mode
from specproxy.settings import Settings
from specproxy.target.client import TargetClient


@dataclass(frozen=True, slots=True)
class OwnPool:
    """A server that runs already.

    Attributes:
        settings: of the proxy that is put before it, with its URL, its key and the draft model.
    """

    settings: Settings


@asynccontextmanager
async def own_arms(pool: OwnPool, console: Console) -> AsyncIterator[tuple[list[Arm], Sharing]]:
    """The target as it is, and through a proxy in the mode that its probe finds; and what the
    two arms share.

    Raises:
        PoolError: the proxy does not speculate there, and why.
    """
    async with (
        TargetClient(pool.settings.target) as server,
        before(pool.settings, console) as running,
    ):
        label = f"specproxy ({running.mode.value})"
        arms = [
            Arm("target", "target as it is", server, server),
            Arm("specproxy", label, running.front, server, ready_s=running.ready_s),
        ]
        yield arms, sharing_of(running.mode)


def sharing_of(mode: Mode) -> Sharing:
    """What it means for two arms to have one server that is sped up in this way."""
    return "learning server" if mode is Mode.SEEDING else "server"
