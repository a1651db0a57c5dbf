"""The tokens that a choice is made from, in memory that libllama's samplers work on in place.

Invariant: the native array points into the numpy array of this object; every `fill` starts anew
from all tokens in the order of their ids, whatever a sampler has removed or reordered before.
Samplers move the native array's start, too (XTC): after them only that one is valid.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specproxy.llama.library import load

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Candidates:
    """`llama_token_data_array` over a whole vocabulary."""

    def __init__(self, num_vocabulary: int) -> None:
        api = load()
        self._ids = np.arange(num_vocabulary, dtype=np.int32)
        self._data = np.zeros(num_vocabulary, _TOKEN_DATA)
        self._start = self._data.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        self._native = api.llama_token_data_array()
        self._reference = ctypes.byref(self._native)

    def fill(self, logits: NDArray[np.float32]) -> None:
        """Take all tokens with their logits.

        Raises:
            ValueError: not one logit per token.
        """
        self._data["id"] = self._ids
        self._data["logit"] = logits
        self._native.data = self._start
        self._native.size = len(self._data)
        self._native.selected = -1
        self._native.sorted = False

    def native(self) -> Any:
        """A reference for libllama's samplers."""
        return self._reference

    @property
    def any_left(self) -> bool:
        """Whether a token is possible at all, right after a grammar was applied."""
        return bool((self._data["logit"] > -np.inf).any())

    @property
    def selected(self) -> int:
        """The token that the last sampler of a chain chose."""
        return int(self._native.data[self._native.selected].id)
