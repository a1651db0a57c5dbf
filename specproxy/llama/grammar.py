"""The grammar that an answer must follow, as libllama keeps it.

Invariant: libllama aborts the process on a token that its grammar does not allow, so nothing is
accepted here that was not asked about before.
"""

import ctypes
from typing import Any

import numpy as np

from specproxy.errors import RequestError
from specproxy.llama.candidates import Candidates
from specproxy.llama.library import load, native_log

_FOREIGN_DIALECT = "%llguidance"
_STUCK_REMEDY = "Change the grammar so that tokens of this model can follow it to its end."


class Grammar:
    """A GBNF grammar and how far the answer has come in it."""

    def __init__(self, text: str, native_vocabulary: int) -> None:
        """Parse `text`, whose start is its rule `root`.

        Args:
            native_vocabulary: must live as long as this.

        Raises:
            RequestError: it cannot be parsed.
        """
        api = load()
        self._apply = api.llama_sampler_apply
        self._accept = api.llama_sampler_accept
        self._allowed: int | None = None
        self._handle: Any = None
        self._one = api.llama_token_data()
        self._one_array = api.llama_token_data_array(data=ctypes.pointer(self._one))
        if text.startswith(_FOREIGN_DIALECT):
            raise RequestError(
                "Grammars of llguidance are not supported.", remedy="Send the grammar as GBNF."
            )
        native_log().take_errors()
        self._handle = api.llama_sampler_init_grammar(native_vocabulary, text.encode(), b"root")
        if not self._handle:
            reason = native_log().take_errors() or "libllama gave no reason"
            raise RequestError(
                f"The grammar cannot be parsed: {reason}.",
                remedy="Send GBNF whose first rule is `root`, without left recursion; "
                "the position of the mistake is in the coordinator's standard error.",
            )

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        if token != self._allowed:
            one, array = self._one, self._one_array
            one.id, one.logit, one.p = token, 1.0, 0.0
            array.size, array.selected, array.sorted = 1, -1, False
            self._apply(self._handle, ctypes.byref(array))
            if one.logit == -np.inf:
                return False
            self._allowed = token
        return True

    def restrict(self, candidates: Candidates) -> None:
        """Take the probability of all tokens that may not come next.

        Raises:
            RequestError: that is every token.
        """
        self._apply(self._handle, candidates.native())
        if not candidates.any_left:
            raise RequestError("The grammar allows no token here.", remedy=_STUCK_REMEDY)

    def accept(self, token: int) -> None:
        """Go on by `token`.

        Raises:
            RequestError: it may not come next.
        """
        if not self.allows(token):
            raise RequestError(f"The grammar does not allow token {token}.", remedy=_STUCK_REMEDY)
        self._accept(self._handle, token)
        self._allowed = None

    def close(self) -> None:
        """Free it. Idempotent."""
        if self._handle:
            load().llama_sampler_free(self._handle)
        self._handle = None
