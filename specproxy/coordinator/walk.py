"""From a pass's logits to the tokens it emits: the walk along a draft tree.

Invariant: the tokens are those that plain decoding would give with the same sampler, for the
sampler alone chooses, once per emitted token; the tree only decides how many of them the pass
gives. Hence neither greedy nor seeded nor random output depends on what was drafted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from specproxy.coordinator.generation import Emitted

Logits = NDArray[np.float32]


class WalkedNode(Protocol):
    """A drafted token, as far as a walk looks at it."""

    @property
    def token(self) -> int: ...

    @property
    def children(self) -> Sequence[Self]:
        """What may follow, each with another token."""
        ...


class Chooser(Protocol):
    """Chooses the tokens of one answer; `llama.sampler.Sampler` is one."""

    def choose(self, logits: Logits) -> int: ...

    def accept(self, token: int) -> None: ...


Node = TypeVar("Node", bound=WalkedNode)


@dataclass(frozen=True, slots=True)
class Walk(Generic[Node]):
    """What one pass gave one answer.

    Attributes:
        emitted: in order, at least one.
        path: the nodes of this pass whose tokens were emitted, from the root's child on: all of
            `emitted` but the last token, or all of it where the walk ended inside the tree.
        ended: the last emitted token ends the generation.
    """

    emitted: tuple[Emitted, ...]
    path: tuple[Node, ...]
    ended: bool


def walk(
    root_logits: Logits,
    children: Sequence[Node],
    logits_of: Callable[[Node], Logits | None],
    sampler: Chooser,
    *,
    is_end: Callable[[int], bool],
    budget: int,
    num_top_logprobs: int | None = None,
) -> Walk[Node]:
    """Choose tokens until one is in no node, ends the generation or uses up the budget.

    Args:
        root_logits: row of the last confirmed token, shape (n_vocab,).
        children: drafted nodes after it.
        logits_of: a node's row; None: it was not in this pass. Asked only for nodes whose token
            was emitted.
        budget: tokens to emit at most, at least 1.
        num_top_logprobs: see `GenerationRequest`.
    """
    emitted: list[Emitted] = []
    path: list[Node] = []
    logits = root_logits
    while True:
        token = sampler.choose(logits)
        sampler.accept(token)
        emitted.append(describe(token, logits, num_top_logprobs))
        ended = is_end(token)
        node = next((child for child in children if child.token == token), None)
        row = None if node is None else logits_of(node)
        if node is not None and row is not None:
            path.append(node)
        if node is None or row is None or ended or len(emitted) >= budget:
            return Walk(tuple(emitted), tuple(path), ended)
        logits, children = row, node.children


def describe(token: int, logits: Logits, num_top: int | None) -> Emitted:
    """`token` with its logprob and those of the `num_top` most probable; None: without any."""
    if num_top is None:
        return Emitted(token)
    largest = logits.max()
    log_sum = largest + np.log(np.exp(logits - largest, dtype=np.float64).sum())
    num_top = min(num_top, len(logits))
    best = np.argpartition(-logits, num_top - 1)[:num_top] if num_top else np.empty(0, np.intp)
    best = best[np.lexsort((best, -logits[best]))]
    return Emitted(
        token,
        float(logits[token] - log_sum),
        tuple((int(one), float(logits[one] - log_sum)) for one in best),
    )
