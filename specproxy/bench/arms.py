"""An arm: one way to have the same target answer.

Invariant: each arm has a server process of its own. A server with an n-gram pool learns what it
processes, so arms that shared one would tell each other the answers.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from specproxy.bench.counted import ProxyCounts
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.recorded import RecordedDrafter
from specproxy.target.client import TargetClient

ArmName = Literal["target", "native", "specproxy"]


class Link(Protocol):
    """What lies between a server and its workers, where it can be changed."""

    @property
    def rtt_ms(self) -> float: ...

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        """Give it another round trip while the server runs."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Where an arm's chats go, and what is behind.

    Attributes:
        label: for the reader.
        front: what clients talk to: the server itself, the far end of a link to it, or the proxy
            before it.
        server: the llama-server.
        draft_n: tokens that the server's own draft model drafts at most; None: it has none.
        ready_s: how long the proxy took until it seeded, its own warm-up included.
        link: to its workers; None where it cannot be changed.
        kind: of the proxy; None: there is none, or it is before a server of the user's own.
        recorded: the proxy's draft, where that is a recorded one.
    """

    name: ArmName
    label: str
    front: TargetClient
    server: TargetClient
    draft_n: int | None = None
    ready_s: float = 0.0
    link: Link | None = None
    kind: ProxyKind | None = None
    recorded: RecordedDrafter | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether its draft takes no core, which nobody can have: it is there to be compared."""
        return self.kind is not None and self.kind.recorded_ms is not None

    @asynccontextmanager
    async def without_delay(self) -> AsyncIterator[None]:
        """For what is not timed: its link, if we can change it, has no delay meanwhile."""
        if self.link is None:
            yield
            return
        rtt_ms = self.link.rtt_ms
        await self.link.set_rtt_ms(0.0)
        try:
            yield
        finally:
            await self.link.set_rtt_ms(rtt_ms)

    async def proxy_counts(self) -> ProxyCounts | None:
        """The proxy's own counts so far; None without a proxy."""
        if self.name != "specproxy":
            return None
        status: dict[str, Any] = await self.front.json("GET", "/specproxy/status")
        counted = ProxyCounts.of_route(status["routes"][0])
        if self.recorded is None:
            return counted
        of_draft = {
            "num_recorded": self.recorded.num_recorded,
            "num_holes": self.recorded.num_holes,
        }
        return ProxyCounts({**counted.counts, **of_draft}, counted.tally)
