"""`specproxy relay`: a slow link before workers that are near, to rehearse a far pool."""

import asyncio
import contextlib

from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.llama.rpc import split_endpoint
from specproxy.pool.relay import DelayRelay, precise_loop
from specproxy.running import serve_until_told

_LAST_PORT = 65535


def relay_command(
    targets: list[str],
    out: Console,
    *,
    rtt_ms: float,
    jitter_ms: float = 0.0,
    mbit_s: float | None = None,
    port: int = 0,
) -> int:
    """Relay connections until SIGINT or SIGTERM; returns the exit code.

    Args:
        targets: `host:port` of each worker.
        port: where the first relay listens on loopback, the others on the ports after it; 0: any.

    Raises:
        ConfigError: what is no target, a port in use, or too few ports.
    """
    endpoints = [split_endpoint(target) for target in targets]
    if port and port + len(targets) - 1 > _LAST_PORT:
        raise ConfigError(
            f"From {port} on there are not {len(targets)} ports.",
            remedy="Choose another --port, or leave it out.",
        )
    relays = [
        DelayRelay(*endpoint, rtt_ms, port + at if port else 0, jitter_ms=jitter_ms, mbit_s=mbit_s)
        for at, endpoint in enumerate(endpoints)
    ]
    return serve_until_told(lambda: _serve(relays, targets, out), loop_factory=precise_loop)


async def _serve(relays: list[DelayRelay], targets: list[str], out: Console) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for relay, target in zip(relays, targets, strict=True):
            try:
                await stack.enter_async_context(relay)
            except OSError as error:
                raise ConfigError(
                    f"A relay cannot listen on port {relay.port}: {error.strerror}.",
                    remedy="Choose another --port, or leave it out.",
                ) from error
            out.print(f"127.0.0.1:{relay.port} -> {target}", highlight=False, markup=False)
        listening = ",".join(f"127.0.0.1:{relay.port}" for relay in relays)
        out.print(f"For llama-server: --rpc {listening}", highlight=False, soft_wrap=True)
        await asyncio.Event().wait()
