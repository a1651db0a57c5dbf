"""A worker of a pool: llama.cpp's own RPC server, from the libraries of the bindings.

Invariant: serving ends with the process only, at a signal's default action. The call blocks in
native code, where no Python handler would run, and nothing of a worker needs tidying up.
"""

import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from specproxy.errors import ConfigError, PoolError
from specproxy.llama.devices import Device, local_devices
from specproxy.llama.ggml import load_ggml
from specproxy.llama.location import cache_folder


def devices_to_serve(name: str | None) -> list[Device]:
    """The device called `name`; None: all accelerators, or the processor where there is none.

    Raises:
        ConfigError: no such device.
        SetupError: no libllama.
    """
    devices = local_devices()
    if name is not None:
        named = [device for device in devices if device.name == name]
        if not named:
            raise ConfigError(
                f"This machine has no device {name!r}.",
                remedy=f"It has: {', '.join(device.name for device in devices)}.",
            )
        return named
    accelerators = [device for device in devices if device.kind in ("gpu", "igpu")]
    return accelerators or [device for device in devices if device.kind == "cpu"][:1]


def serve_rpc(
    host: str, port: int, devices: Sequence[Device], *, num_threads: int, cache: bool
) -> None:
    """Serve `devices` until the process ends; it serves one client at a time.

    Only from the main thread: SIGINT and SIGTERM get their default actions.

    Args:
        host: an IPv4 address of this machine.
        cache: keep large tensors on disk, so that they need not come over the network again.

    Raises:
        PoolError: it cannot be listened there.
        ConfigError: the folder for tensors cannot be made.
        SetupError: this libllama has no RPC.
    """
    _check_free(host, port)
    folder = _tensor_folder() if cache else None
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    load_ggml().start_rpc_server(
        f"{host}:{port}",
        None if folder is None else str(folder),
        num_threads,
        [device.handle for device in devices],
    )
    raise PoolError(f"The RPC server at {host}:{port} came to an end.")


def _tensor_folder() -> Path:
    folder = cache_folder() / "rpc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Tensors cannot be kept in {folder}: {error.strerror}.",
            remedy="Set XDG_CACHE_HOME to a folder that you may write to, or leave --cache out.",
        ) from error
    return folder


def _check_free(host: str, port: int) -> None:
    """libllama would only print that it failed."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(1)
        except OSError as error:
            raise PoolError(
                f"A worker cannot listen at {host}:{port}: {error.strerror}.",
                remedy="Choose another port, or an address of this machine.",
            ) from error
