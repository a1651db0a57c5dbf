"""The functions of ggml that the bindings do not wrap: devices, and the RPC backend.

Invariant: the symbols come from the same loaded libraries as the bindings', so that there is one
registry of devices in the process.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from specproxy.errors import SetupError
from specproxy.llama.library import load
from specproxy.llama.location import find_libraries

_P = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_SIZE = ctypes.c_size_t
_SIZES = ctypes.POINTER(ctypes.c_size_t)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_load_all_from_path": (None, [_TEXT]),
    "ggml_backend_dev_count": (_SIZE, []),
    "ggml_backend_dev_get": (_P, [_SIZE]),
    "ggml_backend_dev_by_name": (_P, [_TEXT]),
    "ggml_backend_dev_by_type": (_P, [ctypes.c_int]),
    "ggml_backend_dev_name": (_TEXT, [_P]),
    "ggml_backend_dev_description": (_TEXT, [_P]),
    "ggml_backend_dev_memory": (None, [_P, _SIZES, _SIZES]),
    "ggml_backend_dev_type": (ctypes.c_int, [_P]),
    "ggml_backend_cpu_buffer_type": (_P, []),
    "ggml_backend_reg_by_name": (_P, [_TEXT]),
    "ggml_backend_reg_dev_count": (_SIZE, [_P]),
    "ggml_backend_reg_dev_get": (_P, [_P, _SIZE]),
    "ggml_backend_reg_get_proc_address": (_P, [_P, _TEXT]),
}
_ADD_SERVER = ctypes.CFUNCTYPE(_P, _TEXT)
_START_SERVER = ctypes.CFUNCTYPE(None, _TEXT, _TEXT, _SIZE, _SIZE, _P)


class Ggml:
    """Typed entry points, under their C names without the prefix `ggml_backend_`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in _SIGNATURES.items():
            function = library[name]
            function.restype = result
            function.argtypes = arguments
            setattr(self, name.removeprefix("ggml_backend_"), function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ggml_backend_{name} is not declared here")

    def add_rpc_server(self, endpoint: str) -> int | None:
        """Registry handle of the worker's devices; None where it has none.

        Ends the process if the worker cannot be used: `rpc.check_worker` comes before.
        """
        registry: int | None = self._rpc("ggml_backend_rpc_add_server", _ADD_SERVER)(
            endpoint.encode()
        )
        return registry

    def start_rpc_server(
        self, endpoint: str, cache_folder: str | None, num_threads: int, devices: Sequence[int]
    ) -> None:
        """Serve `devices` at `endpoint`; returns only if that cannot be listened on."""
        listed = (_P * len(devices))(*devices)
        folder = None if cache_folder is None else cache_folder.encode()
        serve = self._rpc("ggml_backend_rpc_start_server", _START_SERVER)
        serve(endpoint.encode(), folder, num_threads, len(devices), ctypes.addressof(listed))

    def _rpc(self, name: str, signature: Any) -> Any:
        """A function of the RPC backend, which is an optional part of a build.

        Raises:
            SetupError: this build has none.
        """
        registry = self.reg_by_name(b"RPC")
        address = registry and self.reg_get_proc_address(registry, name.encode())
        if not address:
            raise SetupError(
                f"The llama.cpp in {find_libraries()} was built without RPC.",
                remedy="Run `make setup`, or build the bindings with it: "
                'CMAKE_ARGS="-DGGML_RPC=ON" pip install --force-reinstall --no-binary '
                "llama-cpp-python llama-cpp-python",
            )
        return signature(address)


@functools.cache
def load_ggml() -> Ggml:
    """ggml of the loaded libllama, its backends registered.

    Raises:
        SetupError: no library, or one that does not have what is declared here.
    """
    bindings = load()
    try:
        ggml = Ggml(bindings._lib)
    except AttributeError as error:
        raise SetupError(
            f"The libraries in {find_libraries()} do not fit: {error}.",
            remedy="Run `make setup`, or use a llama.cpp of the version of llama-cpp-python.",
        ) from error
    if ggml.dev_count() == 0:  # a build whose backends are plug-ins
        ggml.load_all_from_path(str(find_libraries()).encode())
    return ggml
