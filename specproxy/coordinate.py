"""`specproxy coordinator`: the model over its workers, behind llama-server's routes.

Invariant: the process ends when its engine does, with an error. Whoever started it brings it
back; an engine that failed half-way never answers on.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from rich.console import Console

from specproxy.coordinator.app import create_app
from specproxy.coordinator.build import build, find_devices
from specproxy.coordinator.generation import Engine
from specproxy.coordinator.loading import loading_app
from specproxy.coordinator.served import ServedModel
from specproxy.core.tasks import spawn
from specproxy.errors import ConfigError, CoordinatorError
from specproxy.pool.layout import Place
from specproxy.pool.memory import check_fits
from specproxy.progress import Step
from specproxy.settings import CoordinatorSettings, Settings

_POLL_S = 0.1
SHUTDOWN_S = 5.0
"""How long running answers may take after the coordinator was told to stop."""


async def coordinate(settings: Settings, console: Console, out: Console) -> None:
    """Until cancelled.

    Raises:
        ConfigError, SetupError, PoolError: it cannot be started.
        CoordinatorError: its engine died.
    """
    if settings.coordinator is None:
        raise ConfigError(
            "No coordinator is configured.",
            remedy="Give --model and --worker, or a settings file with a coordinator section.",
        )
    api_key = settings.listen.api_key
    secret = None if api_key is None else api_key.get_secret_value()
    with bound(settings) as listener:
        async with listening(loading_app(), listener):
            served = await _loaded(settings.coordinator, console)
        engine = served.engine
        try:
            async with listening(create_app(served, api_key=secret), listener):
                out.print(
                    f"The coordinator listens on {url_of(listener)}: set target.url of the proxy"
                    " to it.",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )
                await _death_of(engine)
                raise CoordinatorError("The engine has died.", remedy="Its log tells more.")
        finally:
            await engine.aclose()


def bound(settings: Settings) -> socket.socket:
    """A listening socket on the settings' address.

    Raises:
        ConfigError: it cannot be had.
    """
    listen = settings.listen
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {listen.host}:{listen.port}: {error.strerror or error}.",
            remedy="Choose another --host or --port.",
        ) from error


def url_of(listener: socket.socket) -> str:
    """The URL of what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def listening(app: web.Application, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on the socket, which stays open afterwards: who connects then waits."""
    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_S
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener.dup()).start()
        yield
    finally:
        await runner.cleanup()


async def _death_of(engine: Engine) -> None:
    while True:
        await asyncio.sleep(_POLL_S)
        if not engine.alive:
            return


async def _loaded(settings: CoordinatorSettings, console: Console) -> ServedModel:
    """Loaded in a thread, with progress."""
    loading = spawn(asyncio.to_thread(_load, settings), name="load the model")
    with Step(console, f"Loading {settings.model.name}") as step:
        try:
            while not loading.done():
                step.update()
                await asyncio.wait([loading], timeout=_POLL_S)
            return loading.result()
        except asyncio.CancelledError:  # a thread cannot be cancelled; what it made must go
            await asyncio.wait([loading])
            if loading.exception() is None:
                await loading.result().engine.aclose()
            raise


def _load(settings: CoordinatorSettings) -> ServedModel:
    """Blocks."""
    devices = find_devices(settings)
    check_fits(
        settings,
        [Place(device.name, device.memory_free_bytes) for device in devices.ordered],
        host_free_bytes=devices.processor.memory_free_bytes,
        output_local=devices.output_local,
    )
    return build(settings, devices)
