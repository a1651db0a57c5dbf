"""An arm: one way to have the same target answer.

Invariant: each arm has a server process of its own. A server with an n-gram pool learns what it
processes, so arms that shared one would tell each other the answers.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from specproxy.target.client import TargetClient

ArmName = Literal["target", "native", "specproxy"]


class Link(Protocol):
    """What lies between a server and its workers, where it can be changed."""

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        """Give it another round trip while the server runs."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Where an arm's chats go, and what is behind.

    Attributes:
        label: for the reader.
        front: what clients talk to: the server itself, or the proxy before it.
        server: the llama-server.
        draft_n: of `native`: tokens its own draft model drafts at most.
        ready_s: how long the proxy took until it seeded, its own warm-up included.
        link: to its workers; None where it cannot be changed.
    """

    name: ArmName
    label: str
    front: TargetClient
    server: TargetClient
    draft_n: int | None = None
    ready_s: float = 0.0
    link: Link | None = None

    async def proxy_counts(self) -> dict[str, int]:
        """The proxy's own counts so far; empty without a proxy."""
        if self.front is self.server:
            return {}
        status: dict[str, Any] = await self.front.json("GET", "/specproxy/status")
        return {name: int(count) for name, count in status["routes"][0]["counts"].items()}
