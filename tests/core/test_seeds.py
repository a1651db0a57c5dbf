"""What the composed seeds teach llama-server's pool, simulated: the main line, and branches."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.drafted import DraftToken
from specproxy.core.seeds import Seed, SeedSlot
from specproxy.core.tree import DraftTree, Node, SeedState
from specproxy.testing import NgramPool

ANSWER_SLOT, SEED_SLOT = 0, 1


@dataclass
class Pool:
    """The target's side: reads seeds, proposes."""

    n_match: int

    def __post_init__(self) -> None:
        self._pool = NgramPool(self.n_match, 1, 64)
        self.prompts: list[tuple[int, ...]] = []

    def read(self, seed: Seed) -> None:
        self.prompts.append(seed.prompt)
        self._pool.begin(SEED_SLOT, seed.prompt)
        seed.mark(SeedState.POOLED)

    def proposes(self, context: Sequence[int]) -> list[int]:
        return self._pool.draft(ANSWER_SLOT, context[:-1], context[-1])


def drafted(tokens: Iterable[int]) -> list[DraftToken]:
    return [DraftToken(token) for token in tokens]


def seed_all(
    slot: SeedSlot, pool: Pool, trees: Sequence[DraftTree], budget: int = 32
) -> list[Seed]:
    """Seed until nothing is left to send."""
    seeds = []
    while True:
        runs = [run for tree in trees for run in tree.unseeded(pool.n_match)]
        seed = slot.compose(sorted(runs, key=lambda run: run.branches), budget)
        if seed is None:
            return seeds
        slot.commit(seed)
        pool.read(seed)
        seeds.append(seed)


def branch_heads(tree: DraftTree) -> list[Node]:
    """The first nodes of all branches."""
    heads: list[Node] = []
    open_nodes = [tree.root]
    while open_nodes:
        node = open_nodes.pop()
        heads += node.children[1:]
        open_nodes += node.children
    return heads


def leaves(tree: DraftTree) -> list[Node]:
    ends: list[Node] = []
    open_nodes = [tree.root]
    while open_nodes:
        node = open_nodes.pop()
        open_nodes += node.children
        if not node.children and node is not tree.root:
            ends.append(node)
    return ends


Order = tuple[str, int, int, bool]
"""What to grow, where, by how many tokens; and whether to seed all of it then."""
ORDERS = st.lists(
    st.tuples(
        st.sampled_from(["line", "head", "branch", "lengthen"]),
        st.integers(0, 6),
        st.sampled_from([1, 2, 3, 8]),
        st.sampled_from([True, True, False]),
    ),
    min_size=4,
    max_size=16,
)


class Grower:
    """Grows trees of tokens that all differ, so that every n-gram has one true successor."""

    def __init__(self, num_prompt: int, first_token: int = 0) -> None:
        self.fresh = itertools.count(first_token)
        self.tree = DraftTree(self.take(num_prompt))

    def take(self, count: int) -> list[int]:
        return list(itertools.islice(self.fresh, count))

    def grow(self, kind: str, place: int, length: int) -> None:
        """Lengthen the main line, open a branch (its head alone or more), or lengthen one."""
        line = self.tree.main_line()
        heads = branch_heads(self.tree)
        if kind == "line" or not line:
            self.tree.extend(self.tree.tip, drafted(self.take(length)))
        elif kind == "lengthen" and heads:  # what its draft brings after its head was sent
            node = heads[place % len(heads)]
            while node.children:
                node = node.children[0]
            self.tree.extend(node, drafted(self.take(length)))
        else:
            parent = line[place % len(line)].parent or self.tree.root
            node = self.tree.branch(parent, self.take(1)[0], 0.1)
            self.tree.extend(node, drafted(self.take(length if kind == "branch" else 0)))


@given(
    script=ORDERS,
    n_match=st.integers(1, 8),
    num_prompt=st.integers(1, 12),
    budget=st.integers(10, 40),
    max_tokens=st.sampled_from([8, 40, 256]),
)
def test_the_pool_learns_the_tree(
    script: list[Order],
    n_match: int,
    num_prompt: int,
    budget: int,
    max_tokens: int,
) -> None:
    grower = Grower(num_prompt)
    tree, slot, pool = grower.tree, SeedSlot(max_tokens=max_tokens), Pool(n_match)
    held: tuple[int, ...] = ()
    for kind, place, length, wanted in [*script, ("line", 0, 0, True)]:
        grower.grow(kind, place, length)
        if not wanted:
            continue
        for seed in seed_all(slot, pool, [tree], budget):
            num_old = len(seed.prompt) - seed.num_new
            assert 0 < seed.num_new <= budget
            assert seed.prompt[:num_old] == held[:num_old]
            assert num_old <= max_tokens
            held = seed.prompt
    check_pool(pool, tree)
    assert not [run for run in tree.unseeded(n_match) if len(run.context) + 1 <= budget]


def check_pool(pool: Pool, tree: DraftTree) -> None:
    """The main line is proposed from the root on, every branch from its head on."""
    n_match = pool.n_match
    for leaf in leaves(tree):
        context = tree.context(leaf)
        path = [leaf]
        while path[-1].parent is not None and path[-1].parent is not tree.root:
            path.append(path[-1].parent)
        path.reverse()
        rest = [node for node in path if node.state is SeedState.POOLED]
        # behind its last branching a leaf is what its own key leads to
        turns = [i for i, node in enumerate(path) if node in branch_heads(tree)]
        known = tree.root.position + 1 + (turns[-1] + 1 if turns else 0)
        if rest == path and known > n_match:
            proposed = pool.proposes(context[:known])
            assert proposed[: len(context) - known] == context[known:]
    for head in branch_heads(tree):
        before = tree.context(head)[:-1]
        key = before[-n_match:]
        if len(key) < n_match:
            continue
        for prompt in pool.prompts:
            windows = zip(*(prompt[i:] for i in range(n_match + 1)), strict=False)
            assert (*key, head.token) not in set(windows)


@pytest.mark.parametrize("n_match", [2, 4, 6])
def test_a_branch_sent_before_its_continuation_stays_beside_the_main_line(n_match: int) -> None:
    tree, slot, pool = DraftTree(range(10)), SeedSlot(), Pool(n_match)
    tree.extend(tree.root, drafted([10, 11, 12, 13, 14]))
    head = tree.branch(tree.main_line()[2], 50, 0.3)
    seed_all(slot, pool, [tree])
    tree.extend(tree.tip, drafted([15, 16]))
    seed_all(slot, pool, [tree])
    tree.extend(head, drafted([51, 52, 53]))
    seed_all(slot, pool, [tree])
    assert pool.proposes(list(range(10)))[:5] == [10, 11, 12, 13, 14]
    assert pool.proposes([*range(13), 50])[:3] == [51, 52, 53]


@pytest.mark.parametrize("n_match", [2, 4])
def test_a_branch_after_a_monotone_text(n_match: int) -> None:
    """The text itself must not supply what is missing of the branch's key."""
    tree, slot, pool = DraftTree([7] * 12), SeedSlot(), Pool(n_match)
    tree.extend(tree.root, drafted([1, 9, 7]))
    tree.extend(tree.branch(tree.root, 2, 0.3), drafted([3, 4]))
    seed_all(slot, pool, [tree])
    assert pool.proposes([7] * 12)[:1] == [1]
    assert pool.proposes([*[7] * 12, 2])[:2] == [3, 4]


def test_the_branch_taken_is_the_main_line_then() -> None:
    tree, slot, pool = DraftTree(range(10)), SeedSlot(), Pool(4)
    tree.extend(tree.root, drafted([10, 11, 12]))
    tree.extend(tree.branch(tree.root, 50, 0.3), drafted([51, 52]))
    seed_all(slot, pool, [tree])
    tree.advance([50])
    tree.extend(tree.tip, drafted([53, 54]))
    seed_all(slot, pool, [tree])
    assert pool.proposes([*range(10), 50])[:4] == [51, 52, 53, 54]


def test_several_sessions_ride_in_one_prompt() -> None:
    growers = [Grower(8, first_token=1000 * i) for i in range(3)]
    slot, pool = SeedSlot(), Pool(4)
    for grower in growers:
        grower.grow("line", 0, 3)
    trees = [grower.tree for grower in growers]
    seeds = seed_all(slot, pool, trees)
    assert len(seeds) == 1
    assert {run.tree for run in seeds[0].runs} == set(trees)
    for tree in trees:
        check_pool(pool, tree)


def test_the_first_run_is_cut_and_later_ones_fit_whole() -> None:
    tree, slot = DraftTree(range(6)), SeedSlot()
    tree.extend(tree.root, drafted(range(10, 30)))
    runs = tree.unseeded(4)
    seed = slot.compose(runs, 12)
    assert seed is not None
    assert seed.prompt == (2, 3, 4, 5, *range(10, 18))
    slot.commit(seed)
    seed.mark(SeedState.SENT)
    assert tree.num_seeded == 8
    rest = slot.compose(tree.unseeded(4), 12)
    assert rest is not None
    assert (rest.prompt[:12], rest.num_new) == (seed.prompt, 12)
    slot.forget()
    afresh = slot.compose(tree.unseeded(4), 12)
    assert afresh is not None
    assert afresh.num_new == len(afresh.prompt) == 12


def test_nothing_to_send_is_no_seed() -> None:
    assert SeedSlot().compose([], 8) is None
    tree = DraftTree(range(6))
    tree.extend(tree.root, drafted([10]))
    assert SeedSlot().compose(tree.unseeded(4), 4) is None


def test_a_seed_is_void_when_all_it_carries_is_contradicted() -> None:
    tree = DraftTree(range(6))
    tree.extend(tree.root, drafted([10, 11, 12]))
    seed = SeedSlot().compose(tree.unseeded(4), 32)
    assert seed is not None
    assert not seed.void
    tree.advance([10])
    assert not seed.void
    tree.advance([99])
    assert seed.void
