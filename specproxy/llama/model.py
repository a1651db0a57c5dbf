"""A model file in memory.

Invariant: the native model is freed once, and only after everything that borrowed it (contexts,
a running tokenisation) gave it back; `close` may be called at any time from any thread.
"""

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.llama.library import load, native_log


class Model:
    """A loaded GGUF file."""

    def __init__(
        self,
        path: Path,
        *,
        num_gpu_layers: int = 0,
        vocab_only: bool = False,
        mmap: bool = True,
        devices: Sequence[int] | None = None,
        tensor_split: Sequence[float] | None = None,
    ) -> None:
        """Load `path`; blocks while it reads.

        Args:
            num_gpu_layers: layers to put on `devices`; negative for all.
            vocab_only: no weights; enough for a vocabulary.
            devices: `ggml_backend_dev_t` handles in layer order; None for all there are.
            tensor_split: share of the model per device, in their order.

        Raises:
            ConfigError: no such file, or libllama cannot read it.
            SetupError: libllama is not there.
        """
        self.path = path
        self._lock = threading.Lock()
        self._num_holders = 0
        self._closed = False
        self._handle: int | None = None
        if not path.is_file():
            raise ConfigError(
                f"The model file {path} does not exist.",
                remedy="Set the path of a GGUF file that this user can read.",
            )
        api = load()
        params = api.llama_model_default_params()
        params.n_gpu_layers = num_gpu_layers
        params.vocab_only = vocab_only
        params.load_mode = api.LLAMA_LOAD_MODE_MMAP if mmap else api.LLAMA_LOAD_MODE_NONE
        if devices is not None:
            listed = (ctypes.c_void_p * (len(devices) + 1))(*devices, None)
            params.devices = ctypes.addressof(listed)
        if tensor_split is not None:
            shares = (ctypes.c_float * api.llama_max_devices())(*tensor_split)
            params.tensor_split = shares
        native_log().take_errors()
        self._handle = api.llama_model_load_from_file(str(path).encode(), params)
        if not self._handle:
            reason = native_log().take_errors() or "libllama gave no reason"
            raise ConfigError(
                f"The model file {path} cannot be loaded: {reason}.",
                remedy="Check that it is a complete GGUF file of an architecture that this "
                "llama.cpp knows, and that memory suffices.",
            )
        self.num_context_tokens_trained: int = api.llama_model_n_ctx_train(self._handle)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._num_holders} holders"
        return f"<Model {self.path.name} {state}>"

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem

    @contextmanager
    def hold(self) -> Iterator[int]:
        """The native handle, which stays valid inside the block whoever closes the model.

        Raises:
            SpecproxyError: the model is closed.
        """
        with self._lock:
            if self._closed or self._handle is None:
                raise SpecproxyError(f"The model {self.name} is closed.")
            self._num_holders += 1
            handle = self._handle
        try:
            yield handle
        finally:
            with self._lock:
                self._num_holders -= 1
                self._free_if_unused()

    def close(self) -> None:
        """Free the model as soon as nobody holds it. Idempotent."""
        with self._lock:
            self._closed = True
            self._free_if_unused()

    def _free_if_unused(self) -> None:
        if self._closed and self._num_holders == 0 and self._handle is not None:
            load().llama_model_free(self._handle)
            self._handle = None
