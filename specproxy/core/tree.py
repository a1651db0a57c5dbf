"""The draft tree: what the target has said, and what the draft expects it to say next.

The confirmed tokens are a list that only grows; below its last token hangs a tree of drafted
nodes. A node's first child continues the main line, further children are branches: the draft's
other choices at an uncertain position. Every node knows how far it has come on its way into the
target's n-gram pool.

Invariant: the tree says what was expected, never what the answer is. A wrong tree costs time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import dropwhile, takewhile

from specproxy.core.drafted import DraftToken
from specproxy.core.origins import Origin


class SeedState(Enum):
    """How far a drafted token is on its way into the target's n-gram pool."""

    PLANNED = "planned"
    SENT = "sent"
    POOLED = "pooled"


@dataclass(slots=True, eq=False)
class Node:
    """A drafted token; `position` is its index in the whole token sequence."""

    token: int
    position: int
    parent: "Node | None" = None
    probability: float = 1.0
    alternatives: tuple[tuple[int, float], ...] = ()
    state: SeedState = SeedState.PLANNED
    children: "list[Node]" = field(default_factory=list)

    def child(self, token: int) -> "Node | None":
        for node in self.children:
            if node.token == token:
                return node
        return None


@dataclass(frozen=True, slots=True)
class Advance:
    """What the tree had expected of the tokens that the target just emitted.

    Attributes:
        num_confirmed: were the main line's next token.
        num_branched: were a branch's first token; that branch is the main line now.
        num_missed: contradicted the tree, all of which is void then.
        num_undrafted: came where nothing had been drafted.
        num_pooled: those confirmed or branched that had reached the target's pool in time.
        decided: (the main line's next token, what the target said), where there was a next one.
        origins: of each of the tokens.
    """

    num_confirmed: int = 0
    num_branched: int = 0
    num_missed: int = 0
    num_undrafted: int = 0
    num_pooled: int = 0
    decided: "tuple[tuple[Node, int], ...]" = ()
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A path of drafted nodes that the pool does not have yet, below a known context.

    Attributes:
        context: the tokens before the first node, at most the pool's `n_match`.
        branches: the context or the first node holds a branch's first token, which competes
            with the main line's in the same place. The pool keeps one next token per key, which
            must stay the main line's: no seed may lead up to that token by its whole key.
        barred: what stands before `context` in truth; with it the key would be whole, so
            anything else must stand there. None: the key is not whole anyway.
    """

    tree: "DraftTree"
    context: tuple[int, ...]
    nodes: tuple[Node, ...]
    branches: bool = False
    barred: int | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(node.token for node in self.nodes)

    def cut(self, num_tokens: int) -> "Run":
        """The run's first `num_tokens` nodes."""
        return replace(self, nodes=self.nodes[:num_tokens])

    @property
    def void(self) -> bool:
        """The target has passed or contradicted it since: it cannot help any more."""
        last = self.nodes[-1]
        return last is self.tree.root or not self.tree.holds(last)

    def mark(self, state: SeedState) -> None:
        """All of the run's nodes are in `state` now."""
        for node in self.nodes:
            node.state = state
        if state is SeedState.SENT:
            self.tree.num_seeded += len(self.nodes)


class DraftTree:
    """One answer's confirmed tokens and the tree below them."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.tokens: list[int] = list(prompt)
        self.num_seeded = 0
        self._num_prompt = len(self.tokens)
        self._root = self._confirmed_root()

    def __repr__(self) -> str:
        return (
            f"<DraftTree tokens={len(self.tokens)} ahead={self.num_ahead} unsent={self.num_unsent}>"
        )

    def _confirmed_root(self) -> Node:
        token = self.tokens[-1] if self.tokens else -1
        return Node(token, len(self.tokens) - 1, state=SeedState.POOLED)

    @property
    def has_begun(self) -> bool:
        """The target has said something."""
        return len(self.tokens) > self._num_prompt

    @property
    def root(self) -> Node:
        """The last confirmed token."""
        return self._root

    def main_line(self) -> list[Node]:
        """Drafted nodes of the main line, nearest first."""
        line: list[Node] = []
        node = self._root
        while node.children:
            node = node.children[0]
            line.append(node)
        return line

    @property
    def tip(self) -> Node:
        """The main line's last node; the root when nothing is drafted."""
        line = self.main_line()
        return line[-1] if line else self._root

    @property
    def num_ahead(self) -> int:
        """Drafted tokens on the main line."""
        return len(self.main_line())

    @property
    def num_pooled(self) -> int:
        """Those of the main line that the pool can chain to now."""
        pooled = takewhile(lambda node: node.state is SeedState.POOLED, self.main_line())
        return sum(1 for _ in pooled)

    @property
    def num_unsent(self) -> int:
        """Those of the main line that no seed carries yet."""
        return sum(node.state is SeedState.PLANNED for node in self.main_line())

    def unsent(self) -> list[Node]:
        """Nodes that the target has not been sent, parents before children; they are now."""
        fresh: list[Node] = []
        waiting = deque(self._root.children)
        while waiting:
            node = waiting.popleft()
            waiting.extend(node.children)
            if node.state is SeedState.PLANNED:
                node.state = SeedState.SENT
                fresh.append(node)
        self.num_seeded += len(fresh)
        return fresh

    def context(self, node: Node) -> list[int]:
        """All tokens up to and including `node`, shape (node.position + 1,)."""
        return self.tokens[: self._root.position + 1] + self._path(node)

    def _path(self, node: Node) -> list[int]:
        """Tokens from below the root down to `node`; empty for the root itself."""
        return [one.token for one in reversed(self._lineage(node))]

    def advance(self, tokens: Iterable[int]) -> Advance:
        """Follow the target by the `tokens` it emitted."""
        origins: list[Origin] = []
        decided: list[tuple[Node, int]] = []
        num_pooled = 0
        for token in tokens:
            child = self._root.child(token)
            decided += [(node, token) for node in self._root.children[:1]]
            self.tokens.append(token)
            if child is None:
                origins.append(Origin.MISSED if self._root.children else Origin.UNDRAFTED)
                self._root = self._confirmed_root()
                continue
            origins.append(Origin.LINE if child is self._root.children[0] else Origin.BRANCH)
            num_pooled += child.state is SeedState.POOLED
            child.parent = None
            self._root = child
        return Advance(
            num_confirmed=origins.count(Origin.LINE),
            num_branched=origins.count(Origin.BRANCH),
            num_missed=origins.count(Origin.MISSED),
            num_undrafted=origins.count(Origin.UNDRAFTED),
            num_pooled=num_pooled,
            decided=tuple(decided),
            origins=tuple(origins),
        )

    def extend(self, node: Node, drafted: Sequence[DraftToken]) -> int:
        """Hang `drafted` below `node`, which a draft call had started from.

        The target may have moved on meanwhile: what it confirmed itself is skipped, what it
        contradicted is dropped.

        Returns:
            Number of drafted tokens that are new in the tree.
        """
        rest = list(drafted)
        if node.position < self._root.position:
            overtaken = self.tokens[node.position + 1 :]
            if [item.token for item in rest[: len(overtaken)]] != overtaken[: len(rest)]:
                return 0
            rest, node = rest[len(overtaken) :], self._root
        elif not self.holds(node):
            return 0
        num_new = 0
        for item in rest:
            child = node.child(item.token)
            if child is None:
                child = Node(
                    item.token, node.position + 1, node, item.probability, item.alternatives
                )
                node.children.append(child)
                num_new += 1
            elif not child.alternatives:
                child.alternatives = item.alternatives
            node = child
        return num_new

    def branch(self, parent: Node, token: int, probability: float) -> Node:
        """A further child of `parent`, which must have one already."""
        child = Node(token, parent.position + 1, parent, probability)
        parent.children.append(child)
        return child

    def holds(self, node: Node) -> bool:
        """Whether `node` is the root or hangs below it."""
        current: Node | None = node
        while current is not None:
            if current is self._root:
                return True
            current = current.parent
        return False

    def unseeded(self, num_context: int) -> list[Run]:
        """Paths that no seed carries yet: the main line's first, then branches by nearness.

        Args:
            num_context: how many tokens of context each run needs (the pool's `n_match`).
        """
        runs: list[Run] = []
        starts = deque(self._root.children)
        while starts:
            path = [starts.popleft()]
            while path[-1].children:
                path.append(path[-1].children[0])
            for node in path:
                starts.extend(node.children[1:])
            unsent = dropwhile(lambda node: node.state is not SeedState.PLANNED, path)
            fresh = tuple(takewhile(lambda node: node.state is SeedState.PLANNED, unsent))
            if fresh and not (len(fresh) == 1 and _is_branch(fresh[0])):  # alone it ends no key
                runs.append(self._run(fresh, num_context))
        return runs

    def _run(self, fresh: tuple[Node, ...], num_context: int) -> Run:
        before = fresh[0].parent or self._root
        behind = [fresh[0], *self._lineage(before)][: num_context + 1]
        if not any(_is_branch(node) for node in behind):
            return Run(self, tuple(self.tail(before, num_context)), fresh)
        num_known = num_context if _is_branch(fresh[0]) else num_context + 1
        known = self.tail(before, num_known)
        barred = known.pop(0) if len(known) == num_known else None
        return Run(self, tuple(known), fresh, True, barred)

    def _lineage(self, node: Node) -> list[Node]:
        """`node` and what it hangs below, nearest first, without the root."""
        nodes: list[Node] = []
        current: Node | None = node
        while current is not None and current is not self._root:
            nodes.append(current)
            current = current.parent
        return nodes

    def tail(self, node: Node, num_tokens: int) -> list[int]:
        """The last `num_tokens` tokens up to and including `node`."""
        path = self._path(node)
        missing = num_tokens - len(path)
        end = self._root.position + 1
        return (self.tokens[max(0, end - missing) : end] if missing > 0 else []) + path[
            -num_tokens:
        ]


def _is_branch(node: Node) -> bool:
    """Whether `node` is a branch's first."""
    return node.parent is not None and node.parent.children[0] is not node
