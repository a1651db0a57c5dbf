"""Where layers of a model can lie: this machine's devices and those of RPC workers."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specproxy.errors import PoolError
from specproxy.llama.ggml import Ggml, load_ggml
from specproxy.llama.rpc import check_worker

DeviceKind = Literal["cpu", "gpu", "igpu", "accelerator", "rpc"]
_KINDS: dict[int, DeviceKind] = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator"}
"""By `ggml_backend_dev_type`. A worker's devices all call themselves GPUs."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, valid until the process ends.

    Attributes:
        handle: its `ggml_backend_dev_t`, for `Model(devices=...)`.
        name: ggml's name for it (`CPU`, `CUDA0`, `RPC0`).
        description: the hardware; of a worker's device its endpoint.
        memory_free_bytes: when it was listed.
    """

    handle: int
    name: str
    description: str
    kind: DeviceKind
    memory_free_bytes: int
    memory_total_bytes: int


def local_devices() -> list[Device]:
    """This machine's devices in ggml's order: accelerators first, the processor among the last.

    Raises:
        SetupError: no libllama.
    """
    ggml = load_ggml()
    return [_describe(ggml, ggml.dev_get(index)) for index in range(ggml.dev_count())]


def add_rpc_workers(endpoints: Sequence[str], *, timeout_s: float = 10.0) -> list[Device]:
    """Connect to workers; their devices in the order of `endpoints`.

    libllama connects anew whenever it needs a worker and is not connected, and keeps the connection
    while a model lies there. It *aborts* this process once a connection breaks or cannot be made.

    Args:
        endpoints: `host:port` each.
        timeout_s: for each worker's first answer.

    Raises:
        ConfigError: what is no endpoint, or cannot be resolved.
        PoolError: a worker cannot be reached, is busy, speaks another protocol or has no device.
        SetupError: no libllama, or one without RPC.
    """
    ggml = load_ggml()
    devices: list[Device] = []
    for endpoint in endpoints:
        check_worker(endpoint, timeout_s)
        registry = ggml.add_rpc_server(endpoint)
        if not registry:
            raise PoolError(f"The worker at {endpoint} has no devices.")
        handles = (ggml.reg_dev_get(registry, at) for at in range(ggml.reg_dev_count(registry)))
        devices += (_describe(ggml, handle, kind="rpc") for handle in handles)
    return devices


def _describe(ggml: Ggml, handle: int, kind: DeviceKind | None = None) -> Device:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        handle=handle,
        name=ggml.dev_name(handle).decode(),
        description=ggml.dev_description(handle).decode("utf-8", "replace"),
        kind=kind or _KINDS.get(ggml.dev_type(handle), "accelerator"),
        memory_free_bytes=free.value,
        memory_total_bytes=total.value,
    )
