"""The proxy before several scripted targets, and a second of each to ask directly.

    async with routed({"large": {"aliases": ["big"]}, "small": {}}) as rig:
        assert await rig.ask("large", "chat", body) == await rig.alone("large", "chat", body)

Invariant: the two targets of a route are the same model; each route has a model of its own.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from specproxy.route import Route
from specproxy.server.app import Server
from specproxy.settings import load
from specproxy.testing.drafter import ScriptedDrafter
from specproxy.testing.known import Known
from specproxy.testing.language import Language
from specproxy.testing.oracle import Oracle
from specproxy.testing.polling import until
from specproxy.testing.rig import PATHS, Answer, expected_n_match, fetch
from specproxy.testing.target import ScriptedTarget


@dataclass
class RoutedRig:
    """The running parts, by the names of routes.

    Attributes:
        drafter: of all routes.
    """

    targets: dict[str, ScriptedTarget]
    oracles: dict[str, Oracle]
    drafter: ScriptedDrafter
    server: Server
    client: aiohttp.ClientSession

    async def ask(self, model: str | None, kind: str, body: Mapping[str, Any], **more: Any) -> Any:
        """POST through the proxy, for `model`; None names none."""
        named = body if model is None else {**body, "model": model}
        return await self.send("POST", PATHS.get(kind, kind), json=named, **more)

    async def alone(self, name: str, kind: str, body: Mapping[str, Any]) -> Answer:
        """POST to the second target of a route directly, the body as `ask` sends it."""
        address = await self.oracles[name].url() + PATHS.get(kind, kind)
        return await fetch(self.client, "POST", address, json={**body, "model": name})

    async def send(self, method: str, path: str, **more: Any) -> Answer:
        """Any request through the proxy."""
        return await fetch(self.client, method, self.server.url + path, **more)

    def route(self, name: str) -> Route:
        return next(route for route in self.server.routes if route.name == name)

    def at_rest(self) -> bool:
        """Nothing of any answer is left."""
        return not self.drafter.num_open and all(
            route.is_at_rest and not route.gate.num_inside for route in self.server.routes
        )

    async def rest(self) -> None:
        """Wait until all is at rest."""
        await until(self.at_rest)


@asynccontextmanager
async def routed(
    routes: Mapping[str, Mapping[str, Any]],
    *,
    ready: bool = True,
    probed: bool = False,
    pass_ms: float = 0.0,
    poll_s: float = 0.05,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **flags: Any,
) -> AsyncIterator[RoutedRig]:
    """The proxy with these routes.

    Args:
        routes: settings of each, beside its target's URL.
        ready: wait until every route has learned all; where not, they are probed.
        probed: let the routes find out by asking what this rig knows of the targets.
        pass_ms: of the proxied targets, once the routes are ready.
        settings: sections at the top of the settings.
        flags: of all targets; each calls its model `NAME-model`.
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        targets: dict[str, ScriptedTarget] = {}
        oracles: dict[str, Oracle] = {}
        sections: dict[str, dict[str, Any]] = {}
        for key, (name, section) in enumerate(routes.items()):
            language, model = Language(key=key), f"{name}-model"
            targets[name] = await enter(ScriptedTarget(language, model=model, **flags))
            oracle = ScriptedTarget(language, model=model, **flags)
            oracles[name] = await enter(Oracle(oracle))
            sections[name] = {
                **section,
                "target": {"url": targets[name].url, **section.get("target", {})},
            }
        seeding = {"warm": "never", "n_match": expected_n_match(**flags)}
        top = {"seeding": seeding, **(settings or {})}
        top["listen"] = {"port": 0, **top.get("listen", {})}
        drafter = ScriptedDrafter()
        finder = None if probed or not ready else Known(*targets.values())
        server = Server(load(None, **top, routes=sections), drafter, finder=finder)
        for route in server.routes:
            route.poll_s = poll_s
        await enter(server)
        client = await enter(aiohttp.ClientSession(auto_decompress=False))
        if ready:
            for route in server.routes:
                await until(route.ready.is_set)
            await until(lambda: not any(one.engine.has_work for one in targets.values()))
            for target in targets.values():
                target.clock.pass_ms = pass_ms
                target.requests.clear()
                del target.passes[:]
        yield RoutedRig(targets, oracles, drafter, server, client)
