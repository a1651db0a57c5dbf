"""The proxy before a scripted coordinator, and a second one of the same language to ask directly.

Invariant: both coordinators are the same model and the same server; nobody drafts for the second.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from specproxy.server.app import Server
from specproxy.settings import load
from specproxy.testing.coordinator import ScriptedCoordinator
from specproxy.testing.drafter import Behaviour, ScriptedDrafter, perfect
from specproxy.testing.language import Language
from specproxy.testing.polling import until
from specproxy.testing.rig import PATHS, Answer, fetch


@dataclass
class CoordinatedRig:
    """The running parts."""

    coordinator: ScriptedCoordinator
    oracle: ScriptedCoordinator
    drafter: ScriptedDrafter
    server: Server
    client: aiohttp.ClientSession

    async def ask(self, kind: str, body: Any, **more: Any) -> Answer:
        """POST through the proxy. `kind`: chat, completions, native or a path."""
        address = self.server.url + PATHS.get(kind, kind)
        return await fetch(self.client, "POST", address, json=body, **more)

    async def alone(self, kind: str, body: Any) -> Answer:
        """POST to the second coordinator directly."""
        address = self.oracle.url + PATHS.get(kind, kind)
        return await fetch(self.client, "POST", address, json=body)

    def at_rest(self) -> bool:
        """Nothing of any answer is left: places, draft sequences, sessions, gauges."""
        route = self.server.route
        return not (
            any(state.busy for state in self.coordinator.engine.states())
            or not route.is_at_rest
            or self.drafter.num_open
        )


@asynccontextmanager
async def coordinated(
    language: Language | None = None,
    behaviour: Behaviour = perfect,
    *,
    drafter: ScriptedDrafter | None = None,
    ready: bool = True,
    poll_s: float = 0.05,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    pass_ms: float = 0.0,
    **flags: Any,
) -> AsyncIterator[CoordinatedRig]:
    """The proxy in coordinator mode.

    Args:
        ready: wait until its draft channel is open.
        settings: sections of the proxy's settings, beside the target's URL.
        pass_ms: of the proxied coordinator.
        flags: of both coordinators.
    """
    language = language or Language()
    drafter = drafter or ScriptedDrafter(language, behaviour)
    async with AsyncExitStack() as stack:
        coordinator = await stack.enter_async_context(
            ScriptedCoordinator(language, pass_ms=pass_ms, **flags)
        )
        oracle = await stack.enter_async_context(ScriptedCoordinator(language, **flags))
        sections: dict[str, dict[str, Any]] = {
            "target": {"url": coordinator.url},
            "listen": {"port": 0},
        }
        for name, section in (settings or {}).items():
            sections[name] = {**sections.get(name, {}), **section}
        server = Server(load(None, **sections), drafter)
        server.route.poll_s = poll_s
        await stack.enter_async_context(server)
        client = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
        if ready:
            await until(server.route.ready.is_set)
        yield CoordinatedRig(coordinator, oracle, drafter, server, client)
