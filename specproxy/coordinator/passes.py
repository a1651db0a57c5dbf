"""What a pass holds: pending tokens of all answers, drafted nodes, chunks of prompts. Pure.

    shares of the prompts -> candidates of all trees, best first -> as many as pay -> sequence ids

A row costs time that all answers of the pass wait; a node is worth one if it is reached often
enough. So the nodes are added best first, across all answers, and the pass is cut where expected
tokens per second are highest. That holds for one user with a deep tree as for many with none.

Invariant: a share's rows are its pending tokens, then its nodes; a parent's row comes before its
children's, and holds all sequence ids of the paths through it.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.shapes import Shapes
from specproxy.core.cost import PassCost
from specproxy.core.pace import share_rows
from specproxy.core.verify_tree import VerifyNode

_ALONE_S = 1.0
_SHARED_S = 0.06
_SHARED_OF_FIXED = 0.5
_MIN_CHUNK = 16
_USES_OF_A_SHAPE = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What the context holds.

    Attributes:
        num_rows: of a pass. num_outputs: rows of a pass that want logits.
        num_branches: sequence ids for paths that leave an answer's main path.
    """

    num_rows: int
    num_outputs: int
    num_branches: int


@dataclass(eq=False, slots=True)
class PassNode:
    """A drafted node in a pass.

    Attributes:
        row: its index in the batch, once that is filled.
        paths: numbers of the answer's paths through it; 0 is the main path.
        children: those that are in the pass.
    """

    node: VerifyNode
    row: int = -1
    paths: range = range(1)
    children: "list[PassNode]" = field(default_factory=list)

    @property
    def token(self) -> int:
        return self.node.token

    @property
    def position(self) -> int:
        return self.node.position


@dataclass(eq=False, slots=True)
class Share:
    """An answer's part of a pass.

    Attributes:
        num_pending: its pending tokens to evaluate.
        children: the tree's nodes below the last of them.
        nodes: all nodes, parents before children.
        num_branches: paths beside the main one.
        sequences: ids of its paths by their numbers, once the batch is filled.
        root_row: row of the last pending token, then.
    """

    answer: Answer
    num_pending: int
    children: list[PassNode] = field(default_factory=list)
    nodes: list[PassNode] = field(default_factory=list)
    num_branches: int = 0
    sequences: tuple[int, ...] = ()
    root_row: int = -1

    @property
    def completes(self) -> bool:
        """All confirmed tokens are in it, so that tokens come out."""
        return self.num_pending == self.answer.num_pending


def compose(
    answers: Sequence[Answer], cost: PassCost, shapes: Shapes, limits: Limits, *, trees: bool = True
) -> list[Share]:
    """Shares of the next pass for all `answers`, at least one; not more than fit into it."""
    answers = answers[: min(limits.num_rows, limits.num_outputs)]
    shares = _pending_shares(answers, cost, shapes, limits)
    if trees:
        _add_nodes(shares, cost, shapes, limits)
    return shares


def _pending_shares(
    answers: Sequence[Answer], cost: PassCost, shapes: Shapes, limits: Limits
) -> list[Share]:
    pending = [answer.num_pending for answer in answers]
    num_single = sum(num == 1 for num in pending)
    num_reading = len(answers) - num_single
    if num_reading == 0:
        return [Share(answer, 1) for answer in answers]
    budget_s = _ALONE_S if num_single == 0 else max(_SHARED_S, _SHARED_OF_FIXED * cost.fixed_s)
    chunk = min(_rounded(cost.rows_in(budget_s)), limits.num_rows - num_single)
    wanted = num_single + min(chunk, sum(num for num in pending if num > 1))
    chunk = _cheapest(wanted, num_single + num_reading, cost, shapes) - num_single
    return [Share(*pair) for pair in zip(answers, share_rows(pending, chunk), strict=True)]


def _rounded(chunk: int) -> int:
    """Down to a power of two: few sizes, so that they are soon known."""
    return max(_MIN_CHUNK, 1 << (chunk.bit_length() - 1))


def _cheapest(wanted: int, least: int, cost: PassCost, shapes: Shapes) -> int:
    """Rows to run next if `wanted` are to be run: all of them, or first a part of a known size.

    Pieces of known sizes cost the fixed part of a pass each, a new size its extra time once.
    """
    new_s = shapes.new_s(wanted)
    if new_s == 0.0:
        return wanted
    known = [num for num in shapes.known_up_to(wanted) if num >= least]
    if not known:
        return wanted
    num_pieces, left = 0, wanted
    for size in known:
        num_pieces += left // size
        left %= size
    num_pieces += left > 0
    return known[0] if (num_pieces - 1) * cost.fixed_s < new_s else wanted


def _add_nodes(shares: Sequence[Share], cost: PassCost, shapes: Shapes, limits: Limits) -> None:
    """Give the shares the nodes that raise the expected tokens per second of the pass."""
    completing = [share for share in shares if share.completes]
    num_rows = sum(share.num_pending for share in shares)
    room = min(limits.num_rows - num_rows, limits.num_outputs - len(completing))
    if not completing or room <= 0:
        return
    chosen = list(_best_nodes(completing, room, limits.num_branches))
    expected = float(len(completing))
    best_rate, num_best = 0.0, 0
    for num in range(len(chosen) + 1):
        if num:
            expected += chosen[num - 1][1]
        new_s = shapes.new_s(num_rows + num, len(completing) + num)
        rate = expected / (cost.pass_s(num_rows + num) + new_s / _USES_OF_A_SHAPE)
        if rate > best_rate:
            best_rate, num_best = rate, num
    by_parent: dict[VerifyNode, PassNode] = {}
    for share, _, node in chosen[:num_best]:
        added = by_parent[node] = PassNode(node)
        parent = by_parent.get(node.parent) if node.parent is not None else None
        (share if parent is None else parent).children.append(added)
    for share in completing:
        _lay_paths(share)


def _best_nodes(
    shares: Sequence[Share], num_nodes: int, num_branches: int
) -> Iterator[tuple[Share, float, VerifyNode]]:
    """The likeliest nodes of all trees, best first, with as many branches as there are ids for."""

    def offers(index: int) -> Iterator[tuple[float, int, VerifyNode]]:
        answer = shares[index].answer
        for reach, node in answer.tree.best(num_nodes, max_depth=answer.budget - 1):
            yield -reach, index, node

    continued: set[VerifyNode] = set()  # their main child is chosen: another one is a branch
    chosen: set[VerifyNode] = {share.answer.tree.root for share in shares}
    merged = heapq.merge(*map(offers, range(len(shares))), key=lambda offer: offer[:2])
    for negative, index, node in merged:
        parent = node.parent
        if parent is None or parent not in chosen or len(chosen) - len(shares) == num_nodes:
            continue
        if parent in continued:
            if num_branches == 0:
                continue
            num_branches -= 1
        continued.add(parent)
        chosen.add(node)
        yield shares[index], -negative, node


def _lay_paths(share: Share) -> None:
    """Number the tree's paths, the likeliest one 0, and note which of them each node is on."""
    num_paths = 0

    def lay(node: PassNode) -> None:
        nonlocal num_paths
        share.nodes.append(node)
        first = num_paths
        for child in node.children:
            lay(child)
        num_paths += not node.children
        node.paths = range(first, num_paths)

    for node in share.children:
        lay(node)
    share.num_branches = max(num_paths - 1, 0)
