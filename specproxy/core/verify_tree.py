"""The coordinator's mirror of one answer's draft tree: what may be verified in its next pass.

A client grows the tree with nodes that it numbers itself, while passes move the root along: what
arrives may hang below a token that was confirmed meanwhile, below one that is void, or be garbage.

Invariant: every node's path leads back to the root, the last confirmed token; two children of one
node never have the same token; memory is bounded whatever the client sends. `grow` never raises.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specproxy.core.drafts import GrownNode

MAX_NODES = 512
_IDS_PER_NODE = 4
_MAX_CONFIRMED_IDS = 1024


@dataclass(eq=False, slots=True)
class VerifyNode:
    """A drafted token that is still possible.

    Attributes:
        id: the client's first number for it.
        position: index in the whole token sequence, prompt included.
        parent: None for the root alone.
        acceptance: probability that the target says it once it has said the parent, 0..1.
        ids: all the client's numbers for it.
    """

    id: int
    token: int
    position: int
    parent: "VerifyNode | None"
    acceptance: float = 1.0
    children: "list[VerifyNode]" = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<VerifyNode {self.id}: token {self.token} at {self.position}>"

    def child(self, token: int) -> "VerifyNode | None":
        return next((node for node in self.children if node.token == token), None)

    def walk(self) -> "Iterator[VerifyNode]":
        """All nodes below this one, parents before children."""
        stack = list(self.children)
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children)


class VerifyTree:
    """The confirmed tokens of an answer and the drafted nodes below the last of them.

    Attributes:
        tokens: confirmed: prompt and answer so far.
        root: the last confirmed token; its children are what may come next.
        longest: nodes on the longest path below the root.
    """

    def __init__(
        self, tokens: Sequence[int], *, num_vocabulary: int, max_nodes: int = MAX_NODES
    ) -> None:
        """
        Args:
            tokens: the prompt, at least one token.
            max_nodes: of the tree at a time; more are dropped.
        """
        self.tokens = list(tokens)
        self.longest = 0
        self._num_vocabulary = num_vocabulary
        self._max_nodes = max_nodes
        self._nodes: dict[int, VerifyNode] = {}  # by each of the client's ids
        self._num_nodes = 0
        self._confirmed: dict[int, int] = {}  # id -> position, oldest first
        self.root = self._fresh_root()

    def __repr__(self) -> str:
        return f"<VerifyTree {len(self.tokens)} tokens, {self._num_nodes} nodes below>"

    def __len__(self) -> int:
        """Nodes below the root."""
        return self._num_nodes

    def grow(self, nodes: Sequence[GrownNode]) -> None:
        """Add what still fits below the confirmed tokens; the rest is dropped."""
        for node in nodes:
            if self._is_sane(node):
                self._add(node)

    def advance(self, tokens: Sequence[int]) -> None:
        """These tokens were emitted: they are confirmed, and what contradicts them is void."""
        for token in tokens:
            self.tokens.append(token)
            confirmed = self.root.child(token)
            for node in self.root.children:
                if node is not confirmed:
                    self._forget(node)
            if confirmed is None:
                self.root = self._fresh_root()
            else:
                self._confirm(confirmed)
        last = len(self.tokens) - 1
        self.longest = max((node.position - last for node in self.root.walk()), default=0)

    def best(
        self, max_nodes: int, min_reach: float = 0.0, *, max_depth: int | None = None
    ) -> list[tuple[float, VerifyNode]]:
        """The connected part of the tree that is reached most likely, with each node's reach.

        Best first, so that every beginning of the list is connected, too. The reach of a node is
        the product of the acceptances on its path. Equal ones: the shallower and older first.

        Args:
            max_depth: leave out what is further below the root.
        """
        chosen: list[tuple[float, VerifyNode]] = []
        last = self.root.position if max_depth is None else self.root.position + max_depth
        heap: list[tuple[float, int, int, VerifyNode]] = []

        def offer(parent: VerifyNode, reach: float) -> None:
            for node in parent.children:
                reached = reach * node.acceptance
                if reached >= min_reach and (max_depth is None or node.position <= last):
                    heapq.heappush(heap, (-reached, node.position, node.id, node))

        offer(self.root, 1.0)
        while heap and len(chosen) < max_nodes:
            negative, _, _, node = heapq.heappop(heap)
            chosen.append((-negative, node))
            offer(node, -negative)
        return chosen

    def _is_sane(self, node: GrownNode) -> bool:
        """Types and ranges, for the numbers come from a client; and the id is new."""
        numbers = (node.id, node.position, node.token)
        return (
            all(type(number) is int for number in numbers)
            and type(node.parent) in (int, type(None))
            and type(node.acceptance) in (int, float)
            and math.isfinite(node.acceptance)
            and 0 <= node.token < self._num_vocabulary
            and 1 <= node.position <= len(self.tokens) + self._max_nodes
            and node.id not in self._nodes
            and node.id not in self._confirmed
        )

    def _add(self, node: GrownNode) -> None:
        parent = self._nodes.get(node.parent) if node.parent is not None else None
        if parent is None:
            before = node.position - 1
            if node.parent is not None and self._confirmed.get(node.parent) != before:
                return  # its parent is void, or never was
            if node.position < len(self.tokens):
                if self.tokens[node.position] == node.token:
                    self._remember(node.id, node.position)
                return
            parent = self.root
        if parent.position != node.position - 1 or len(self._nodes) >= self._max_ids:
            return
        same = parent.child(node.token)
        if same is None:
            if self._num_nodes >= self._max_nodes:
                return
            acceptance = min(1.0, max(0.0, float(node.acceptance)))
            same = VerifyNode(node.id, node.token, node.position, parent, acceptance)
            parent.children.append(same)
            self._num_nodes += 1
            self.longest = max(self.longest, node.position - self.root.position)
        same.ids.append(node.id)
        self._nodes[node.id] = same

    @property
    def _max_ids(self) -> int:
        return _IDS_PER_NODE * self._max_nodes

    def _confirm(self, node: VerifyNode) -> None:
        """`node` is the root now."""
        for one in node.ids:
            del self._nodes[one]
            self._remember(one, node.position)
        self._num_nodes -= 1
        node.parent = None
        self.root = node

    def _remember(self, one: int, position: int) -> None:
        self._confirmed[one] = position
        while len(self._confirmed) > _MAX_CONFIRMED_IDS:
            del self._confirmed[next(iter(self._confirmed))]

    def _forget(self, node: VerifyNode) -> None:
        """`node` and all below it are void."""
        for void in (node, *node.walk()):
            for one in void.ids:
                del self._nodes[one]
            self._num_nodes -= 1

    def _fresh_root(self) -> VerifyNode:
        return VerifyNode(-1, self.tokens[-1], len(self.tokens) - 1, None)
