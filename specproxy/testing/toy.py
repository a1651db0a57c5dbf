"""A model whose probabilities can be counted, decoded plainly or by walks along draft trees.

Invariant: a row of logits depends on the tokens before it alone, as a real model's would without
rounding; so whatever differs between the two ways of decoding, the walk has done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from specproxy.coordinator.generation import Emitted
from specproxy.coordinator.walk import Chooser, Logits, walk

Drafts = Callable[[tuple[int, ...]], Sequence[int]]
"""Drafted tokens after a sequence: several make branches, none ends the path."""


class ToyModel:
    """Logits by the last two tokens, over a small vocabulary whose last token ends an answer."""

    def __init__(self, num_vocabulary: int = 8, *, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.num_vocabulary = num_vocabulary
        self._table = random.normal(scale=1.5, size=(num_vocabulary,) * 3).astype(np.float32)

    def logits(self, tokens: Sequence[int]) -> Logits:
        """The row after `tokens`, at least two of them."""
        row: Logits = self._table[tokens[-2], tokens[-1]]
        return row

    def is_end(self, token: int) -> bool:
        return token == self.num_vocabulary - 1

    def ranked(self, tokens: Sequence[int]) -> list[int]:
        """All tokens, the most probable first."""
        return [int(token) for token in np.argsort(-self.logits(tokens), kind="stable")]


@dataclass(frozen=True)
class ToyNode:
    """A drafted token, known by the whole sequence that leads to it."""

    tokens: tuple[int, ...]
    drafts: Drafts
    num_deeper: int

    @property
    def token(self) -> int:
        return self.tokens[-1]

    @cached_property
    def children(self) -> "Sequence[ToyNode]":
        return grow(self.tokens, self.drafts, self.num_deeper)


def grow(tokens: tuple[int, ...], drafts: Drafts, depth: int) -> Sequence[ToyNode]:
    """What is drafted after `tokens`, `depth` tokens deep."""
    if depth == 0:
        return []
    return [ToyNode((*tokens, token), drafts, depth - 1) for token in drafts(tokens)]


def decode(
    model: ToyModel,
    sampler: Chooser,
    prompt: Sequence[int],
    num_tokens: int,
    *,
    drafts: Drafts = lambda tokens: (),
    depth: int = 4,
    num_top_logprobs: int | None = None,
) -> tuple[list[Emitted], int]:
    """Up to `num_tokens` tokens, and the number of passes; without drafts it is plain decoding."""
    tokens = tuple(prompt)
    emitted: list[Emitted] = []
    num_passes = 0
    while len(emitted) < num_tokens:
        walked = walk(
            model.logits(tokens),
            grow(tokens, drafts, depth),
            lambda node: model.logits(node.tokens),
            sampler,
            is_end=model.is_end,
            budget=num_tokens - len(emitted),
            num_top_logprobs=num_top_logprobs,
        )
        num_passes += 1
        emitted += walked.emitted
        tokens += tuple(one.token for one in walked.emitted)
        if walked.ended:
            break
    return emitted, num_passes
