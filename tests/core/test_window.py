"""The speculative window keeps its bounds and takes the likeliest branch."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.drafted import DraftToken
from specproxy.core.tree import DraftTree
from specproxy.core.window import Window

TORN = DraftToken(0, 0.4, ((100, 0.39), (101, 0.1)))
SURE = DraftToken(0, 0.99, ((100, 0.001), (101, 0.0005)))


def grown(*line: DraftToken) -> DraftTree:
    tree = DraftTree([1, 2, 3])
    tree.extend(tree.root, [replace(item, token=10 + i) for i, item in enumerate(line)])
    return tree


@given(
    line=st.lists(st.sampled_from([TORN, SURE]), max_size=60),
    block=st.integers(1, 8),
    lookahead=st.integers(1, 50),
)
def test_the_main_line_keeps_within_its_bounds(
    line: list[DraftToken], block: int, lookahead: int
) -> None:
    window = Window(block_tokens=block, lookahead_tokens=lookahead)
    num_tokens = window.next_block(grown(*line), AcceptanceModel())
    assert 0 <= num_tokens <= block
    assert len(line) >= lookahead or num_tokens <= lookahead - len(line)
    if len(line) >= lookahead:
        assert num_tokens == 0
    elif len(line) < window.sure_tokens:
        assert num_tokens > 0


def test_an_unlikely_tip_is_drafted_no_further() -> None:
    window, model = Window(), AcceptanceModel()
    num_tokens = window.sure_tokens
    assert window.next_block(grown(*[TORN] * num_tokens), model) == 0
    for _ in range(1000):
        model.learn(grown(SURE).main_line()[0], 10)
    assert window.next_block(grown(*[SURE] * num_tokens), model) > 0


def test_branches_wait_for_the_main_line() -> None:
    window, model = Window(), AcceptanceModel()
    assert window.next_branch(grown(*[TORN] * (window.near_tokens - 1)), model) is None
    tree = grown(*[TORN] * window.near_tokens)
    branch = window.next_branch(tree, model)
    assert branch is not None
    assert (branch.parent, branch.token) == (tree.root, 100)
    assert replace(window, branch_tokens=0).next_branch(tree, model) is None


def test_the_likeliest_branch_first_each_once_then_none() -> None:
    window, model = Window(min_branch_reach=0.02), AcceptanceModel()
    tree = grown(SURE, SURE, TORN, *[SURE] * window.near_tokens)
    reaches = []
    while (branch := window.next_branch(tree, model)) is not None:
        assert branch.parent.child(branch.token) is None
        first, *_ = branch.parent.children
        rank = [token for token, _ in first.alternatives].index(branch.token)
        way = [node for node in tree.main_line() if node.position <= branch.parent.position]
        reaches.append(model.reach(way) * model.alternative(first, rank))
        tree.branch(branch.parent, branch.token, branch.probability)
    assert reaches == sorted(reaches, reverse=True)
    assert reaches[-1] >= window.min_branch_reach
    assert tree.main_line()[1].children[1].token == 100  # at the torn place
