"""`specproxy worker`: this machine's devices for a pool, with no more than the bindings.

Invariant: RPC knows no passwords, whoever connects may use and overwrite the memory. So it is bound
to addresses that only a private network reaches, unless somebody insists.
"""

import ipaddress
import os
import socket

from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.llama.devices import Device
from specproxy.llama.worker import devices_to_serve, serve_rpc

_TAILSCALE = ipaddress.IPv4Network("100.64.0.0/10")


def run_worker(
    host: str,
    port: int,
    console: Console,
    *,
    device: str | None = None,
    num_threads: int | None = None,
    cache: bool = False,
    allow_public: bool = False,
) -> None:
    """Say what is served, then serve it until SIGINT or SIGTERM ends the process.

    Args:
        host: address or name of this machine's interface to listen on.
        device: by ggml's name (`CUDA0`); None: all accelerators, else the processor.
        num_threads: of the processor; None: half of its cores, as llama.cpp does.

    Raises:
        ConfigError: an address that others than a private network can reach, or no such device.
        PoolError: it cannot be listened there.
        SetupError: no libllama, or one without RPC.
    """
    address = resolve(host)
    if not (allow_public or is_private(address)):
        raise ConfigError(
            f"{host} may be reached from outside, and llama.cpp's RPC has no authentication.",
            remedy="Give --host the machine's address in the LAN or tailnet, or insist with "
            "--allow-public.",
        )
    devices = devices_to_serve(device)
    for line in announcement(str(address), port, devices):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    threads = num_threads or max(1, (os.cpu_count() or 1) // 2)
    serve_rpc(str(address), port, devices, num_threads=threads, cache=cache)


def resolve(host: str) -> ipaddress.IPv4Address:
    """The IPv4 address of `host`.

    Raises:
        ConfigError: it has none.
    """
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{host!r} is no address of this machine: {error}.",
            remedy="Give --host an IPv4 address; llama.cpp's RPC knows no IPv6.",
        ) from error
    return ipaddress.IPv4Address(found[0][4][0])


def is_private(address: ipaddress.IPv4Address) -> bool:
    """Whether the internet cannot reach it; 0.0.0.0 stands for all interfaces, so it may."""
    return not address.is_unspecified and (address.is_private or address in _TAILSCALE)


def announcement(address: str, port: int, devices: list[Device]) -> list[str]:
    """What is served, and the line for the coordinator's settings."""
    lines = [
        f"{device.name}: {device.description}, {device.memory_free_bytes / 2**30:.1f} of "
        f"{device.memory_total_bytes / 2**30:.1f} GiB free"
        for device in devices
    ]
    shown = "ADDRESS_OF_THIS_MACHINE" if address == "0.0.0.0" else address
    return [
        *lines,
        f"Serving at {address}:{port}. In the coordinator's settings, under `coordinator:`",
        f'  workers: ["{shown}:{port}"]',
    ]
