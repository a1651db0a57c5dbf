"""The rows of one decode step, kept in arrays that libllama reads in place.

Invariant: the native struct points into the arrays of this object, so it is valid as long as the
batch lives; rows 0..len-1 are filled, in the order they were added.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from specproxy.llama.library import load


class Batch:
    """Rows of (token, position, sequence ids, logits wanted)."""

    def __init__(self, capacity: int, *, max_sequences_per_row: int = 1) -> None:
        """
        Args:
            capacity: rows at most; not more than the context's `num_batch_tokens`.
            max_sequences_per_row: sequence ids at most that share one cell (1 for plain decoding,
                more to verify trees).
        """
        self.capacity = capacity
        self.num_outputs = 0
        self._length = 0
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._num_sequences = np.ones(capacity, np.int32)
        self._sequences = np.zeros((capacity, max_sequences_per_row), np.int32)
        self._outputs = np.zeros(capacity, np.int8)
        rows = np.arange(capacity, dtype=np.uintp)
        self._row_addresses = self._sequences.ctypes.data + rows * self._sequences.strides[0]
        self._native = self._build_native()

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Batch {self._length}/{self.capacity} rows, {self.num_outputs} outputs>"

    def clear(self) -> None:
        """Drop all rows."""
        self._length = 0
        self.num_outputs = 0

    def add(
        self, token: int, position: int, sequences: Sequence[int], *, wants_logits: bool
    ) -> int:
        """Add one row; returns its index.

        Raises:
            IndexError: the batch is full.
            ValueError: more sequence ids than a row holds.
        """
        row = self._length
        self._tokens[row] = token
        self._positions[row] = position
        self._sequences[row, : len(sequences)] = sequences
        self._num_sequences[row] = len(sequences)
        self._outputs[row] = wants_logits
        self.num_outputs += wants_logits
        self._length += 1
        return row

    def extend(
        self, tokens: Sequence[int], position: int, sequence: int, *, wants_last_logits: bool
    ) -> int:
        """Add consecutive rows of one sequence, from `position`; returns the last one's index.

        Raises:
            IndexError: they do not fit.
        """
        start, end = self._length, self._length + len(tokens)
        if end > self.capacity:
            raise IndexError(f"{len(tokens)} more rows do not fit into {self!r}")
        self._tokens[start:end] = tokens
        self._positions[start:end] = np.arange(position, position + len(tokens))
        self._sequences[start:end, 0] = sequence
        self._num_sequences[start:end] = 1
        self._outputs[start:end] = 0
        self._outputs[end - 1] = wants_last_logits
        self.num_outputs += wants_last_logits
        self._length = end
        return end - 1

    def native(self) -> Any:
        """The `llama_batch` over the filled rows."""
        self._native.n_tokens = self._length
        return self._native

    def _build_native(self) -> Any:
        api = load()
        pointer = ctypes.POINTER
        return api.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(pointer(ctypes.c_int32)),
            embd=None,
            pos=self._positions.ctypes.data_as(pointer(ctypes.c_int32)),
            n_seq_id=self._num_sequences.ctypes.data_as(pointer(ctypes.c_int32)),
            seq_id=self._row_addresses.ctypes.data_as(pointer(pointer(ctypes.c_int32))),
            logits=self._outputs.ctypes.data_as(pointer(ctypes.c_int8)),
        )
