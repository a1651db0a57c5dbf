"""A model file in memory.

Invariant: the native model is freed once, and only after everything that borrowed it (contexts,
a running tokenisation) gave it back; `close` may be called at any time from any thread.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.llama.ggml import load_ggml
from specproxy.llama.library import load, native_log


class _BufferOverride(ctypes.Structure):
    """`llama_model_tensor_buft_override`, which the bindings do not declare."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


_OUTPUT_LAYER = rb"^(output|output_norm|token_embd)\."
"""Its tensors; `token_embd` where the model uses the input's weights for the output too."""


class Model:
    """A loaded GGUF file.

    Attributes:
        num_context_tokens_trained: longest sequence it was trained on.
        num_layers: repeating layers, without the output layer.
        num_bytes: size of all tensors.
        is_recurrent: layers of it keep one state for all tokens of a sequence, of which no part
            can be forgotten or shared.
        description: architecture, size and quantisation, as libllama puts it.
    """

    def __init__(
        self,
        path: Path,
        *,
        num_gpu_layers: int = 0,
        vocab_only: bool = False,
        mmap: bool = True,
        devices: Sequence[int] | None = None,
        tensor_split: Sequence[float] | None = None,
        output_local: bool = False,
    ) -> None:
        """Load `path`; blocks while it reads.

        Args:
            num_gpu_layers: layers to put on `devices`; negative for all.
            vocab_only: no weights; enough for a vocabulary.
            devices: `Device.handle`s in layer order, never the processor's, which takes what
                `num_gpu_layers` leaves; None for all accelerators of this machine.
            tensor_split: share of the model per device, in their order; None for shares by
                free memory.
            output_local: keep the output layer here, on the processor, so that of a row one
                hidden state crosses the network and not one logit per token of the vocabulary.

        Raises:
            ConfigError: no such file, or libllama cannot read it or find memory for it.
            SetupError: libllama is not there.
        """
        self.path = path
        self._lock = threading.Lock()
        self._num_holders = 0
        self._closed = False
        self._handle: int | None = None
        if not os.path.isfile(path):  # (Path.is_file raises where it may not look)
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
        if output_local:
            local = _BufferOverride(_OUTPUT_LAYER, load_ggml().cpu_buffer_type())
            overrides = (_BufferOverride * 2)(local)  # the empty second one ends the list
            params.tensor_buft_overrides = ctypes.addressof(overrides)
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
        self.num_layers: int = api.llama_model_n_layer(self._handle)
        self.num_bytes: int = api.llama_model_size(self._handle)
        self.is_recurrent: bool = api.llama_model_is_recurrent(
            self._handle
        ) or api.llama_model_is_hybrid(self._handle)
        self.description = _text(lambda *room: api.llama_model_desc(self._handle, *room)) or ""

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._num_holders} holders"
        return f"<Model {self.path.name} {state}>"

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem

    def metadata(self, key: str) -> str | None:
        """A scalar or string of the file's metadata as text (`general.name`); None: not there.

        Raises:
            SpecproxyError: the model is closed.
        """
        read = load().llama_model_meta_val_str
        with self.hold() as handle:
            return _text(lambda *room: read(handle, key.encode(), *room))

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


def _text(read: Callable[[Any, int], int]) -> str | None:
    """What a libllama function writes into a buffer of a size, as `snprintf` does."""
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = read(buffer, size)
        if length < 0:
            return None
        if length < size:
            return buffer.value.decode("utf-8", "replace")
        size = length + 1
