"""How Tailscale reaches a machine: directly, or through a relay that adds its own round trip."""

import asyncio
import contextlib
import ipaddress
import re
import shutil
import subprocess
from dataclasses import dataclass

_NETWORK = ipaddress.ip_network("100.64.0.0/10")
_LIMIT_S = 15.0
_PONG = re.compile(r"pong from .* via (?P<way>\S+) in (?P<ms>[\d.]+) ?ms")


@dataclass(frozen=True, slots=True)
class Route:
    """One way through the tailnet.

    Attributes:
        is_relayed: over a DERP server.
        way: that server, or the address it goes to.
    """

    is_relayed: bool
    way: str
    rtt_ms: float


def read_pongs(text: str) -> Route | None:
    """The last answer that `tailscale ping` printed; a path often becomes direct after a few."""
    pongs = list(_PONG.finditer(text))
    if not pongs:
        return None
    way = pongs[-1]["way"]
    return Route(way.startswith("DERP("), way, float(pongs[-1]["ms"]))


async def path_to(host: str) -> Route | None:
    """The way to `host`; None: it is in no tailnet, or the `tailscale` command is not here."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host) in _NETWORK and shutil.which("tailscale"):
            return read_pongs(await _ping(host))
    return None


async def _ping(host: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *("tailscale", "ping", "--c", "5", "--timeout", "2s", host),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_LIMIT_S):
            out, _ = await process.communicate()
            return out.decode("utf-8", "replace")
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
