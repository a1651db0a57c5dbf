"""The application: routes to handlers, and what lives as long as it does."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
from aiohttp import web

from specproxy.core.tasks import spawn, stop
from specproxy.draft.protocol import Drafter
from specproxy.route import Route
from specproxy.route.finder import Finder
from specproxy.route.router import Router
from specproxy.server.context import KEYRING, LIMITS, METRICS, ROUTER, SETTINGS
from specproxy.server.cors import add_headers
from specproxy.server.generate import generate
from specproxy.server.identity import name_answer
from specproxy.server.keyring import Keyring
from specproxy.server.limits import BodyLimits
from specproxy.server.metrics import Metrics
from specproxy.server.middleware import errors, expectation, identified, keys, pages
from specproxy.server.own import health, metrics, models, status
from specproxy.server.page.events import WATCHERS, Watchers, events
from specproxy.server.page.files import FILES, page_file, to_page
from specproxy.server.passthrough import forward
from specproxy.server.protocol import Site
from specproxy.settings import Settings
from specproxy.target.client import TargetClient
from specproxy.target.deltas import GENERATION_PATHS

log = structlog.get_logger(__name__)

DRAIN_S = 8.0
"""How long running answers may go on after the proxy was told to stop; then they end with an
error."""
SHUTDOWN_S = 10.0
"""How long their handlers may take in all."""
HURRY_S = 0.5
"""How long they may take once somebody is in a hurry."""


Drafters = Drafter | Mapping[str, Drafter] | None
"""One for all routes, or by the names of the routes that have one."""


def create_app(
    settings: Settings,
    drafters: Drafters,
    *,
    state_folder: Path | None = None,
    finder: Finder | None = None,
) -> web.Application:
    """Build the proxy. Drafters are closed by whoever made them.

    Args:
        state_folder: where what is learned is kept; None keeps nothing.
        finder: what examines the targets; None: the one that asks them.

    Serve it with `handler_cancellation=True`, so that a vanished client frees its slot.
    """
    limits = BodyLimits(settings)
    app = web.Application(
        middlewares=[pages, identified, errors, keys],
        client_max_size=limits.num_bytes,
    )
    router = Router(_routes(settings, drafters, state_folder, finder))
    app[SETTINGS] = settings
    app[ROUTER] = router
    app[KEYRING] = Keyring(settings)
    app[LIMITS] = limits
    app[METRICS] = Metrics(router.routes)
    watchers = app[WATCHERS] = Watchers(router.routes)

    async def drain(_app: web.Application) -> None:
        watchers.closing.set()
        num_running = sum(route.num_running for route in router.routes)
        if num_running:
            log.info("stopping", running=num_running, at_most_s=DRAIN_S)
        for route in router.routes:
            asyncio.get_running_loop().call_later(DRAIN_S, route.client.stop)

    async def life(_app: web.Application) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for route in router.routes:
                await stack.enter_async_context(route.client)
                task = spawn(route.serve(), name=f"route {route.name}")
                stack.push_async_callback(stop, task)
            yield

    app.cleanup_ctx.append(life)
    app.on_shutdown.append(drain)
    app.on_response_prepare.append(add_headers)
    app.on_response_prepare.append(name_answer)
    own = (
        ("/metrics", metrics),
        ("/specproxy/status", status),
        *((path, health) for path in ("/health", "/v1/health")),
        *((path, models) for path in ("/models", "/v1/models")),
        ("/specproxy", to_page),
        *((path, page_file) for path in FILES),
    )
    for method, path, handler in (
        *((method, *one) for one in own for method in ("GET", "HEAD")),
        ("GET", "/specproxy/events", events),
        *(("POST", path, generate) for path in GENERATION_PATHS),
        ("*", "/{path:.*}", forward),
    ):
        app.router.add_route(method, path, handler, expect_handler=expectation)
    return app


def _routes(
    settings: Settings, drafters: Drafters, state_folder: Path | None, finder: Finder | None
) -> list[Route]:
    """All routes of the settings, the default one first."""
    return [
        Route(
            name,
            TargetClient(route.target),
            drafters.get(name) if isinstance(drafters, Mapping) else drafters,
            route.seeding,
            fanout=route.fanout,
            aliases=route.aliases,
            max_requests=route.max_requests,
            state_folder=state_folder,
            finder=finder,
        )
        for name, route in settings.all_routes.items()
    ]


class Server:
    """The application on a socket. Use as an async context manager.

    Attributes:
        url: where it listens, once entered.
    """

    def __init__(
        self,
        settings: Settings,
        drafters: Drafters,
        *,
        state_folder: Path | None = None,
        finder: Finder | None = None,
    ) -> None:
        self._listen = settings.listen
        self._runner = web.AppRunner(
            create_app(settings, drafters, state_folder=state_folder, finder=finder),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=SHUTDOWN_S,
        )
        self.url = ""

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._runner.app[ROUTER].routes

    @property
    def route(self) -> Route:
        """The default one, or the only one."""
        return self._runner.app[ROUTER].default

    @property
    def watchers(self) -> Watchers:
        """Of the live page."""
        return self._runner.app[WATCHERS]

    async def __aenter__(self) -> "Server":
        await self._runner.setup()
        listen = self._listen
        await Site(self._runner, listen.host, listen.port, write_s=listen.write_s).start()
        host = f"[{self._listen.host}]" if ":" in self._listen.host else self._listen.host
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Let running answers end, within limits. A cancellation meanwhile ends them at once;
        the caller gets it when all is given back."""
        closing = spawn(self._runner.cleanup(), name="close the server")
        hurried: asyncio.CancelledError | None = None
        while not closing.done():
            try:
                await asyncio.wait([closing])
            except asyncio.CancelledError as error:
                hurried = error
                self._hurry()
        if hurried is not None:
            raise hurried
        closing.result()

    def _hurry(self) -> None:
        """End what still runs: streams get an error event, and what nobody reads is cut."""
        log.info("stopping at once", running=sum(route.num_running for route in self.routes))
        for route in self.routes:
            route.client.stop()
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(HURRY_S, connection.transport.abort)
