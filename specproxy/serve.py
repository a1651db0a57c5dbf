"""The proxy as a running thing: its draft in memory, its server on a socket, until told to stop.

Invariant: what was loaded or bound is given back in whatever way the block ends.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from pydantic import SecretStr
from rich.console import Console

from specproxy.core.tasks import spawn
from specproxy.draft.protocol import Drafter
from specproxy.errors import ConfigError, PoolError, SetupError, SpecproxyError
from specproxy.llama.location import cache_folder
from specproxy.pool.coordinator import Coordinator
from specproxy.progress import Step
from specproxy.route import Mode, Route
from specproxy.server.app import Drafters, Server
from specproxy.settings import DraftSettings, Settings, StateSettings

_POLL_S = 0.1


@asynccontextmanager
async def loaded(settings: DraftSettings | None, console: Console) -> AsyncIterator[Drafter | None]:
    """The draft model in memory; None where none is configured.

    Raises:
        ConfigError, SetupError: it cannot be loaded.
    """
    if settings is None:
        yield None
        return
    loading = spawn(asyncio.to_thread(_load, settings), name="load the draft model")
    with Step(console, f"Loading the draft model {settings.model.name}") as step:
        try:
            while not loading.done():
                step.update()
                await asyncio.wait([loading], timeout=_POLL_S)
            drafter = loading.result()
        except asyncio.CancelledError:  # a thread cannot be cancelled; its model must be freed
            await asyncio.wait([loading])
            if loading.exception() is None:
                await loading.result().aclose()
            raise
    try:
        yield drafter
    finally:
        await drafter.aclose()


@asynccontextmanager
async def all_loaded(settings: Settings, console: Console) -> AsyncIterator[dict[str, Drafter]]:
    """The draft models of all routes, by the routes' names; each file is loaded once."""
    async with AsyncExitStack() as stack:
        files: dict[Path, Drafter | None] = {}
        found: dict[str, Drafter] = {}
        for name, route in settings.all_routes.items():
            if route.draft is None:
                continue
            file = route.draft.model.resolve()
            if file not in files:
                opening = _affordable(route.draft, console)
                files[file] = await stack.enter_async_context(opening)
            drafter = files[file]
            if drafter is not None:
                found[name] = drafter
        yield found


@asynccontextmanager
async def _affordable(settings: DraftSettings, console: Console) -> AsyncIterator[Drafter | None]:
    """As `loaded`, but where its memory is not to be had, None and a word: answers need no draft.

    Raises:
        ConfigError, SetupError: it cannot be loaded, however much memory there is.
    """
    async with AsyncExitStack() as stack:
        try:
            drafter = await stack.enter_async_context(loaded(settings, console))
        except (ConfigError, SetupError):
            raise
        except SpecproxyError as error:
            console.print(f"{error}\nUntil then nothing is sped up.", style="yellow", markup=False)
            drafter = None
        yield drafter


def _load(settings: DraftSettings) -> Drafter:
    from specproxy.draft.engine import LlamaDrafter  # (who has no draft needs no numpy)

    return LlamaDrafter(
        settings.model,
        num_sequences=settings.num_sequences,
        context_tokens=settings.context_tokens,
        num_threads=settings.num_threads,
        gpu_layers=settings.gpu_layers,
    )


@asynccontextmanager
async def coordinated(settings: Settings) -> AsyncIterator[Settings]:
    """The coordinator as a child that is brought back when it dies, where one is configured.

    Yields:
        The settings with the coordinator's address and key as the target's.
    """
    if settings.coordinator is None:
        yield settings
        return
    async with Coordinator(settings.coordinator) as coordinator:
        own = {"url": coordinator.url, "api_key": SecretStr(coordinator.key)}
        target = settings.target.model_copy(update=own)
        yield settings.model_copy(update={"target": target})


@asynccontextmanager
async def proxy(
    settings: Settings, drafters: Drafters, *, state_folder: Path | None = None
) -> AsyncIterator[Server]:
    """The proxy, listening.

    Args:
        drafters: one for all routes, or by the names of routes.
        state_folder: where what is learned is kept; None keeps nothing, so that measurements and
            tests do not depend on what ran before.

    Raises:
        ConfigError: it cannot listen where it should.
    """
    server = Server(settings, drafters, state_folder=state_folder)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(server.__aexit__)  # also when the socket cannot be bound
        try:
            await server.__aenter__()
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        yield server


def _cannot_listen(settings: Settings, error: OSError) -> ConfigError:
    where = f"{settings.listen.host}:{settings.listen.port}"
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"Another program listens on {where} already.",
            remedy="Stop it, or choose another port with --port or listen.port.",
        )
    return ConfigError(
        f"Cannot listen on {where}: {error.strerror or error}.",
        remedy="Check listen.host and listen.port.",
    )


async def speculating(route: Route, step: Step) -> None:
    """Wait until `route` has learned all and speculates.

    Raises:
        PoolError: it will not, and why.
    """
    while not route.ready.is_set():
        step.update(f"[{route.mode.value}: {route.reason}]")
        await asyncio.sleep(_POLL_S)
    if route.mode not in (Mode.SEEDING, Mode.FANOUT, Mode.COORDINATOR):
        raise PoolError(f"The proxy does not speculate: {route.reason}.")


def _state_folder(settings: StateSettings) -> Path | None:
    if not settings.keep:
        return None
    return settings.path or cache_folder() / "state"


def announce(url: str, names: Sequence[str], out: Console) -> None:
    """Say where clients connect, and what they may ask for."""
    lines = [
        f"specproxy listens on {url}",
        f"In a client, set the base URL to {url}/v1 (OPENAI_BASE_URL={url}/v1); live page:"
        f" {url}/specproxy/",
    ]
    if len(names) > 1:
        lines.append(f"Models: {', '.join(names)}")
    for line in lines:
        out.print(line, highlight=False, markup=False, soft_wrap=True)


async def serve(settings: Settings, console: Console, out: Console) -> None:
    """`specproxy serve`: until cancelled."""
    async with (
        all_loaded(settings, console) as drafters,
        coordinated(settings) as settings,
        proxy(settings, drafters, state_folder=_state_folder(settings.state)) as server,
    ):
        announce(server.url, [route.name for route in server.routes], out)
        if all(route.draft is None for route in settings.all_routes.values()):
            console.print(
                "No draft model is configured, so nothing is sped up: set draft.model.",
                style="yellow",
            )
        await asyncio.Event().wait()
