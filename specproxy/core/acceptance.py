"""How likely the target is to agree with the draft, learned from its answers.

The draft's own probability is a poor guide: of two models of one family both may be unsure and
still agree. What tells is the margin between the draft's first and second choice. Measured with
SmolLM2-135M, Q4_1 drafting for F16, 576 greedy tokens: 97 % agreed; all 17 misses were among the
129 tokens with ln(p1/p2) < 0.5, and 14 of them were the draft's second choice.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable

from specproxy.core.tree import Node

EDGES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Upper edges of the margin classes, in nats; one open class above, one for no alternatives."""
PRIOR_WEIGHT = 2.0
RANK_PRIOR = (7.0, 1.5, 0.5)
RANK_PRIOR_NONE = 1.0


class AcceptanceModel:
    """Acceptance by margin, and which alternative is right where the first choice is not."""

    def __init__(self) -> None:
        middles = [0.0, *EDGES]
        priors = [1.0 - 0.5 * math.exp(-2.5 * margin) for margin in middles] + [0.8]
        self._accepted = [PRIOR_WEIGHT * prior for prior in priors]
        self._decided = [PRIOR_WEIGHT] * len(priors)
        self._ranks = list(RANK_PRIOR)
        self._missed = sum(RANK_PRIOR) + RANK_PRIOR_NONE

    def __repr__(self) -> str:
        pairs = zip(self._accepted, self._decided, strict=True)
        return f"<AcceptanceModel {' '.join(f'{a / n:.2f}' for a, n in pairs)}>"

    def accept(self, node: Node) -> float:
        """Probability that the target says `node`, given that it gets to its parent."""
        index = _class_of(node)
        return self._accepted[index] / self._decided[index]

    @property
    def average(self) -> float:
        """Of all first choices so far."""
        return sum(self._accepted) / sum(self._decided)

    def of(self, node: Node) -> float:
        """Probability that the target says `node`, on the main line or a branch's first."""
        first = node if node.parent is None else node.parent.children[0]
        if node is first:
            return self.accept(node)
        for rank, (token, _) in enumerate(first.alternatives):
            if token == node.token:
                return self.alternative(first, rank)
        return 0.0

    def alternative(self, node: Node, rank: int) -> float:
        """Probability that it says `node.alternatives[rank]` instead."""
        share = self._ranks[rank] / self._missed if rank < len(self._ranks) else 0.0
        return (1.0 - self.accept(node)) * share

    def reach(self, line: Iterable[Node]) -> float:
        """Probability that the target says all of `line`."""
        return math.prod(self.accept(node) for node in line)

    def learn(self, node: Node, token: int) -> None:
        """The target said `token` where the draft's first choice was `node`."""
        index = _class_of(node)
        self._decided[index] += 1.0
        if token == node.token:
            self._accepted[index] += 1.0
            return
        self._missed += 1.0
        for rank, (alternative, _) in enumerate(node.alternatives[: len(self._ranks)]):
            self._ranks[rank] += alternative == token


def _class_of(node: Node) -> int:
    if not node.alternatives:
        return len(EDGES) + 1
    second = node.alternatives[0][1]
    if second <= 0.0:
        return len(EDGES)
    return bisect_right(EDGES, math.log(max(node.probability, second) / second))
