"""How one answer's tokens are chosen: llama-server's sampling, token by token.

Invariant: given the same logits and accepted tokens, `choose` gives what llama-server would choose,
and draws random numbers exactly as often, so that a seed means the same. Verifying a draft changes
nothing in that: `choose` is called once per emitted token, never for a token that is not emitted.

Source: `common_sampler_sample` and `common_sampler_accept` of llama.cpp's common/sampling.cpp.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from specproxy.core.sampling import SamplingParams
from specproxy.errors import RequestError, SpecproxyError
from specproxy.llama.candidates import Candidates
from specproxy.llama.chain import build_chain, chooses_largest, logit_biases, num_remembered
from specproxy.llama.grammar import Grammar
from specproxy.llama.library import load
from specproxy.llama.model import Model


class Sampler:
    """Sampler chain, grammar and history of one answer. One thread at a time uses it."""

    def __init__(self, params: SamplingParams, model: Model | None, num_vocabulary: int) -> None:
        """Build the chain; holds `model` until closed.

        Args:
            model: None: only what needs no vocabulary (no grammar, DRY, infill, ignore_eos).

        Raises:
            RequestError: unknown sampler, broken grammar, or a value that llama-server refuses.
            SpecproxyError: the model is closed.
        """
        api = load()
        self._apply = api.llama_sampler_apply
        self._accept = api.llama_sampler_accept
        self._num_vocabulary = num_vocabulary
        self._num_remembered = num_remembered(params)
        self._candidates: Candidates | None = None
        self._grammar: Grammar | None = None
        with ExitStack() as stack:
            vocabulary: int | None = None
            if model is not None:
                vocabulary = api.llama_model_get_vocab(stack.enter_context(model.hold()))
            biases = logit_biases(params, vocabulary)
            self._chain = build_chain(params, biases, vocabulary, num_vocabulary)
            stack.callback(api.llama_sampler_free, self._chain)
            if params.grammar:
                if vocabulary is None:
                    raise RequestError("A grammar needs a model's vocabulary.")
                self._grammar = Grammar(params.grammar, vocabulary)
                stack.callback(self._grammar.close)
            self._closing = stack.pop_all()
        self._seed: int = api.llama_sampler_get_seed(self._chain)
        self._is_argmax = chooses_largest(params) and not biases
        self._open = True

    def __repr__(self) -> str:
        kind = "argmax" if self._is_argmax else "chain"
        return f"<Sampler {kind} seed={self._seed}{'' if self._open else ' closed'}>"

    @property
    def seed(self) -> int:
        """The seed in use, also where none was given."""
        return self._seed

    def choose(self, logits: NDArray[np.float32]) -> int:
        """The next token after what was accepted so far; `logits` is left as it is.

        Args:
            logits: shape (num_vocabulary,).

        Raises:
            RequestError: the grammar allows no token.
            SpecproxyError: the sampler is closed.
        """
        if not self._open:
            raise SpecproxyError("The sampler is closed.")
        token = self._largest(logits) if self._is_argmax else None
        if token is None:
            token = self._sample(logits)
        if self._grammar is None or self._grammar.allows(token):
            return token
        return self._sample(logits, grammar=self._grammar)

    def accept(self, token: int) -> None:
        """Go on by a token of the answer, normally the one just chosen.

        Raises:
            RequestError: the grammar does not allow it.
            SpecproxyError: the sampler is closed.
        """
        if not self._open:
            raise SpecproxyError("The sampler is closed.")
        if self._grammar is not None:
            self._grammar.accept(token)
        if self._num_remembered:
            self._accept(self._chain, token)

    def prime(self, tokens: Sequence[int]) -> None:
        """Take the prompt, before the first choice: penalties see it, the grammar does not."""
        if self._num_remembered:  # [-0:] would be all of them
            for token in tokens[-self._num_remembered :]:
                self._accept(self._chain, token)

    def close(self) -> None:
        """Free everything. Idempotent."""
        self._open = False
        self._closing.close()

    def _largest(self, logits: NDArray[np.float32]) -> int | None:
        """Index of the largest logit; None if several share it."""
        first = int(logits.argmax())
        return first if np.count_nonzero(logits == logits[first]) == 1 else None

    def _sample(self, logits: NDArray[np.float32], grammar: Grammar | None = None) -> int:
        if self._candidates is None:
            self._candidates = Candidates(self._num_vocabulary)
        self._candidates.fill(logits)
        if grammar is not None:
            grammar.restrict(self._candidates)
        self._apply(self._chain, self._candidates.native())
        return self._candidates.selected
