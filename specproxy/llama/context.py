"""A model's KV cache and the decode step over it.

Invariant: one thread at a time uses a context; it holds its model, so the model is freed after it
in whatever order the two are closed. libllama *aborts the process* when a batch exceeds the sizes
given here, so they are checked before.
"""

from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.llama.batch import Batch
from specproxy.llama.library import load, native_log
from specproxy.llama.model import Model

_NO_ROOM = 1
CACHE_TYPES = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
    "iq4_nl": 20,
}
"""What the cache's keys and values can be stored as; numbers of `ggml_type`."""


class Context:
    """One unified KV cache for several sequences.

    Attributes:
        num_tokens: KV cells, shared by all sequences (rounded up by libllama).
        can_cut: a part of a sequence can be forgotten (`seq_rm`) or shared (`seq_cp`); recurrent
            models keep one state of all its tokens.
        num_batch_tokens: rows of a batch at most, computed in one pass.
        max_outputs: rows of a batch at most that want logits.
    """

    def __init__(
        self,
        model: Model,
        *,
        num_tokens: int,
        max_sequences: int = 1,
        num_batch_tokens: int = 512,
        max_outputs: int | None = None,
        num_threads: int = 1,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
        offload_cache: bool = True,
    ) -> None:
        """Allocate the cache.

        Args:
            max_outputs: None for one per sequence id, the least libllama takes.
            cache_type_k: one of `CACHE_TYPES`; so is `cache_type_v`.
            offload_cache: each layer's part lies on that layer's device, not in this memory.

        Raises:
            ConfigError: no such cache type.
            SpecproxyError: libllama cannot make it (memory, sizes), or the model is closed.
        """
        self._closing = ExitStack()
        self._memory: Any = None
        api = load()
        self._api = api
        params = api.llama_context_default_params()
        params.n_ctx = num_tokens
        params.n_batch = params.n_ubatch = num_batch_tokens
        params.n_seq_max = max_sequences
        params.n_outputs_max = self.max_outputs = max(max_outputs or 0, max_sequences)
        params.n_threads = params.n_threads_batch = num_threads
        params.type_k = _cache_type(cache_type_k)
        params.type_v = _cache_type(cache_type_v)
        params.offload_kqv = offload_cache
        params.kv_unified = True
        params.swa_full = True  # a pruned window could not be rolled back
        params.no_perf = True
        with ExitStack() as stack:
            handle = stack.enter_context(model.hold())
            native_log().take_errors()
            self._handle: int | None = api.llama_init_from_model(handle, params)
            if not self._handle:
                reason = native_log().take_errors() or "libllama gave no reason"
                raise SpecproxyError(
                    f"No context of {num_tokens} tokens for {model.name}: {reason}.",
                    remedy="Ask for a shorter context, fewer sequences or a smaller cache type "
                    "(q8_0).",
                )
            stack.callback(api.llama_free, self._handle)
            self._closing = stack.pop_all()
        self._memory = api.llama_get_memory(self._handle)
        self.can_cut = not model.is_recurrent
        self._num_vocabulary: int = api.llama_vocab_n_tokens(api.llama_model_get_vocab(handle))
        self.num_tokens: int = api.llama_n_ctx(self._handle)
        self.num_batch_tokens: int = min(num_batch_tokens, api.llama_n_batch(self._handle))

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"{self.num_tokens} cells"
        return f"<Context {state}>"

    def close(self) -> None:
        """Free the cache. Idempotent."""
        self._handle = None
        self._closing.close()

    def decode(self, batch: Batch) -> bool:
        """Evaluate `batch` in one pass.

        Returns:
            False if there is no KV room for it; the cache is then as it was.

        Raises:
            SpecproxyError: the batch is empty, too large or invalid, or the computation failed;
                the content of the cache is then unknown.
        """
        if not 0 < len(batch) <= self.num_batch_tokens or batch.num_outputs > self.max_outputs:
            raise SpecproxyError(f"{batch!r} does not fit into {self!r}.")
        native_log().take_errors()
        code: int = self._api.llama_decode(self._open(), batch.native())
        if code not in (0, _NO_ROOM):
            raise SpecproxyError(
                f"llama_decode failed with code {code}: {native_log().take_errors()}."
            )
        return code == 0

    def synchronize(self) -> None:
        """Wait until everything that was decoded is computed, on whatever device."""
        self._api.llama_synchronize(self._open())

    def logits(self, row: int) -> NDArray[np.float32]:
        """Logits of a row of the last batch, shape (n_vocab,).

        A view of libllama's memory: valid until the next `decode` or `close`.

        Raises:
            SpecproxyError: the row asked for no logits.
        """
        pointer = self._api.llama_get_logits_ith(self._open(), row)
        if not pointer:
            raise SpecproxyError(f"Row {row} of the last batch has no logits.")
        view: NDArray[np.float32] = np.ctypeslib.as_array(pointer, shape=(self._num_vocabulary,))
        return view

    def seq_rm(self, sequence: int, start: int = 0, end: int = -1) -> bool:
        """Forget positions `start`..`end`-1 of a sequence; `end` -1: to its end.

        Returns:
            False if the cache cannot do that (recurrent models): nothing was removed. Removing
            the whole sequence never fails.
        """
        self._open()
        return bool(self._api.llama_memory_seq_rm(self._memory, sequence, start, end))

    def seq_cp(self, source: int, destination: int, start: int = 0, end: int = -1) -> None:
        """Let `destination` share the cells of `source` at `start`..`end`-1; no data moves."""
        self._open()
        self._api.llama_memory_seq_cp(self._memory, source, destination, start, end)

    def _open(self) -> int:
        if self._handle is None:
            raise SpecproxyError("The context is closed.")
        return self._handle


def _cache_type(name: str) -> int:
    if name not in CACHE_TYPES:
        raise ConfigError(
            f"There is no cache type {name!r}.", remedy=f"Known: {', '.join(CACHE_TYPES)}."
        )
    return CACHE_TYPES[name]
