"""The mirror of a draft tree, against a naive model that keeps everything."""

import math
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from specproxy.core.drafts import GrownNode
from specproxy.core.verify_tree import VerifyNode, VerifyTree

PROMPT = (1, 2)
NUM_VOCABULARY = 4


@dataclass
class Naive:
    """Every node ever sent as its whole token path; what is possible is looked up anew."""

    tokens: list[int] = field(default_factory=lambda: list(PROMPT))
    paths: dict[int, tuple[int, ...]] = field(default_factory=dict)
    acceptances: dict[tuple[int, ...], float] = field(default_factory=dict)

    def grow(self, node: GrownNode) -> None:
        if node.id in self.paths:
            return
        if node.parent is None:
            path = tuple(self.tokens[: node.position])
            if not 1 <= node.position <= len(self.tokens):
                return
        elif node.parent in self.paths and len(self.paths[node.parent]) == node.position:
            path = self.paths[node.parent]
        else:
            return
        path = (*path, node.token)
        if self.possible(path):
            self.paths[node.id] = path
            self.acceptances.setdefault(path, node.acceptance)

    def possible(self, path: tuple[int, ...]) -> bool:
        shared = min(len(path), len(self.tokens))
        return path[:shared] == tuple(self.tokens[:shared])

    def advance(self, tokens: list[int]) -> None:
        self.tokens += tokens
        self.paths = {i: path for i, path in self.paths.items() if self.possible(path)}

    def below(self) -> set[tuple[int, ...]]:
        return {path for path in self.paths.values() if len(path) > len(self.tokens)}

    def reach(self, path: tuple[int, ...]) -> float:
        ends = range(len(self.tokens) + 1, len(path) + 1)
        return math.prod(self.acceptances[path[:end]] for end in ends)


def path_of(tree: VerifyTree, node: VerifyNode) -> tuple[int, ...]:
    path: list[int] = []
    step: VerifyNode | None = node
    while step is not None and step is not tree.root:
        path.append(step.token)
        step = step.parent
    return (*tree.tokens, *reversed(path))


acceptances = st.sampled_from([0.0, 0.25, 0.5, 1.0])
grows = st.builds(
    GrownNode,
    id=st.integers(0, 30),
    parent=st.none() | st.integers(0, 30),
    position=st.integers(0, 9),
    token=st.integers(0, NUM_VOCABULARY - 1),
    acceptance=acceptances,
)
emissions = st.lists(st.integers(0, NUM_VOCABULARY - 1), min_size=1, max_size=3)


@settings(max_examples=150)
@given(st.lists(st.lists(grows, min_size=1, max_size=12) | emissions, max_size=8))
def test_it_holds_what_a_naive_model_holds(steps: list[list[GrownNode] | list[int]]) -> None:
    tree, naive = VerifyTree(PROMPT, num_vocabulary=NUM_VOCABULARY), Naive()
    for step in steps:
        nodes = [item for item in step if isinstance(item, GrownNode)]
        tree.grow(nodes)
        for node in nodes:
            naive.grow(node)
        emitted = [item for item in step if isinstance(item, int)]
        if emitted:
            tree.advance(emitted)
            naive.advance(emitted)
        found = list(tree.root.walk())
        assert {path_of(tree, node) for node in found} == naive.below()
        assert len(found) == len(tree) == len(naive.below())
        assert tree.longest == max((len(p) - len(tree.tokens) for p in naive.below()), default=0)
        chosen = tree.best(5, 0.2)
        assert all(reach == naive.reach(path_of(tree, node)) for reach, node in chosen)
        reaches = sorted((r for r in map(naive.reach, naive.below()) if r >= 0.2), reverse=True)
        assert [reach for reach, _ in chosen] == reaches[:5]
        for index, (_, node) in enumerate(chosen):
            assert node.parent is tree.root or node.parent in [n for _, n in chosen[:index]]
        assert tree.tokens == naive.tokens


anything = st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.booleans()


@given(
    st.lists(
        st.builds(
            GrownNode,
            id=anything,  # type: ignore[arg-type]
            parent=anything,
            position=anything | st.integers(1, 4),  # type: ignore[arg-type]
            token=anything | st.integers(0, 3),  # type: ignore[arg-type]
            acceptance=anything,  # type: ignore[arg-type]
        )
    )
)
def test_garbage_is_dropped(nodes: list[GrownNode]) -> None:
    tree = VerifyTree(PROMPT, num_vocabulary=NUM_VOCABULARY)
    tree.grow(nodes)
    tree.advance([3])
    for reach, node in tree.best(100):
        assert 0 <= reach <= 1
        assert 0 <= node.token < NUM_VOCABULARY


def chain(start: int, length: int, *, first_id: int = 0) -> list[GrownNode]:
    """`length` nodes in a row below the confirmed token at `start - 1`."""
    return [
        GrownNode(first_id + i, first_id + i - 1 if i else None, start + i, 3, 0.9)
        for i in range(length)
    ]


def test_memory_is_bounded() -> None:
    tree = VerifyTree(PROMPT, num_vocabulary=NUM_VOCABULARY, max_nodes=8)
    tree.grow(chain(2, 20))
    assert len(tree) == tree.longest == 8
    tree.grow([GrownNode(100 + i, None, 2, 3, 0.9) for i in range(10_000)])
    assert len(tree) == 8
    for _ in range(3000):
        tree.advance([3])
        tree.grow(chain(len(tree.tokens), 8, first_id=10_000 + 8 * len(tree.tokens)))
    assert len(tree) == 8
    assert len(tree._confirmed) <= 1024
    assert len(tree._nodes) <= 32


def test_a_child_of_a_confirmed_node_counts_as_confirmed_itself_if_it_was_said() -> None:
    tree = VerifyTree(PROMPT, num_vocabulary=NUM_VOCABULARY)
    tree.grow(chain(2, 1))
    tree.advance([3, 0, 1])
    tree.grow(
        [
            GrownNode(1, 0, 3, 0, 0.9),  # was said
            GrownNode(2, 0, 3, 2, 0.9),  # was not
            GrownNode(3, 1, 4, 1, 0.9),  # was said
            GrownNode(4, 3, 5, 2, 0.9),  # may come
            GrownNode(5, 2, 4, 2, 0.9),  # below what was not said
        ]
    )
    assert [(node.id, node.position) for node in tree.root.walk()] == [(4, 5)]


def test_depth_can_be_limited() -> None:
    tree = VerifyTree(PROMPT, num_vocabulary=NUM_VOCABULARY)
    tree.grow(chain(2, 6))
    assert [node.position for _, node in tree.best(10, max_depth=2)] == [2, 3]
    assert tree.best(10, max_depth=0) == []
