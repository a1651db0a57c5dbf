"""What a pass is made of."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.passes import Limits, Share, compose
from specproxy.coordinator.shapes import Shapes
from specproxy.core.cost import PassCost
from specproxy.core.drafts import GrownNode
from tests.coordinator.answers import NUM_VOCABULARY, grow_chain, make_answer

LIMITS = Limits(num_rows=128, num_outputs=32, num_branches=4)


def cost_of(fixed_s: float, row_s: float) -> PassCost:
    cost = PassCost()
    for _ in range(200):
        for rows in (1, 8, 16):
            cost.observe(rows, fixed_s + row_s * rows)
    return cost


def no_link() -> Shapes:
    shapes = Shapes()
    shapes.matter = False
    return shapes


def slow_link(*known: int) -> Shapes:
    shapes = Shapes(assume_matter=True)
    for rows in known:
        shapes.observe(rows, rows, 0.0, None)
    shapes.measure(0.6, cost_of(0.2, 0.005))
    return shapes


def num_nodes(shares: list[Share]) -> int:
    return sum(len(share.nodes) for share in shares)


grown = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, NUM_VOCABULARY - 1), st.floats(0, 1)), max_size=40
)


def grow_any(answer: Answer, nodes: list[tuple[int, int, float]]) -> None:
    """Each node below an earlier one, or below the root."""
    depth: dict[int | None, int] = {None: len(answer.tree.tokens) - 1}
    for one, (pick, token, acceptance) in enumerate(nodes):
        parent = None if pick >= one else pick
        depth[one] = depth[parent] + 1
        answer.grow([GrownNode(one, parent, depth[one], token, acceptance)], 0)


@given(
    st.lists(st.tuples(grown, st.integers(1, 200), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(0, 4),
    st.sampled_from([(1, 8, 16), ()]),
)
def test_a_pass_keeps_its_limits_and_its_form(
    parts: list[tuple[list[tuple[int, int, float]], int, int]],
    num_branches: int,
    known: tuple[int, ...],
) -> None:
    answers = []
    for key, (nodes, num_pending, budget) in enumerate(parts):
        answer = make_answer(key, num_prompt=210, num_read=210 - num_pending, budget=budget)
        grow_any(answer, nodes)
        answers.append(answer)
    limits = replace(LIMITS, num_branches=num_branches)
    shares = compose(answers, cost_of(0.2, 0.005), slow_link(*known), limits)
    assert [share.answer for share in shares] == answers
    rows = sum(share.num_pending + len(share.nodes) for share in shares)
    outputs = sum(share.completes + len(share.nodes) for share in shares)
    assert len(answers) <= rows <= limits.num_rows
    assert outputs <= limits.num_outputs
    assert sum(share.num_branches for share in shares) <= num_branches
    for share in shares:
        assert 1 <= share.num_pending <= share.answer.num_pending
        assert not share.nodes or share.completes
        seen = {share.answer.tree.root}
        leaves = []
        for node in share.nodes:
            assert node.node.parent in seen
            assert node.position < len(share.answer.tree.tokens) + share.answer.budget - 1
            seen.add(node.node)
            if node.children:
                paths = [path for child in node.children for path in child.paths]
                assert paths == list(node.paths)
            else:
                leaves += list(node.paths)
        assert leaves == list(range(len(leaves)))
        assert share.num_branches == max(len(leaves) - 1, 0)


def test_likely_nodes_are_worth_a_row_and_unlikely_ones_are_not() -> None:
    likely, unlikely = make_answer(), make_answer()
    grow_chain(likely, 8, 0.95)
    grow_chain(unlikely, 8, 0.02)
    far, near = cost_of(0.2, 0.005), cost_of(0.001, 0.02)
    assert num_nodes(compose([likely], far, no_link(), LIMITS)) == 8
    assert num_nodes(compose([unlikely], near, no_link(), LIMITS)) == 0
    assert num_nodes(compose([likely], far, no_link(), LIMITS, trees=False)) == 0


def test_many_answers_leave_less_room_for_unlikely_nodes() -> None:
    cost = cost_of(0.05, 0.01)
    answers = [make_answer(key) for key in range(12)]
    for answer in answers:
        grow_chain(answer, 1, 0.4)
    alone = num_nodes(compose(answers[:1], cost, no_link(), LIMITS))
    together = num_nodes(compose(answers, cost, no_link(), LIMITS))
    assert alone == 1
    assert together == 0


def test_the_first_path_is_the_likeliest_and_the_least_likely_branch_goes_without_an_id() -> None:
    answer = make_answer()
    for token, acceptance in ((7, 0.2), (8, 0.5), (9, 0.3)):
        grow_chain(answer, 2, acceptance, token=token)
    (share,) = compose([answer], cost_of(0.5, 0.0001), no_link(), replace(LIMITS, num_branches=1))
    assert [node.token for node in share.nodes if 0 in node.paths] == [8, 8]
    assert [node.token for node in share.nodes if 1 in node.paths] == [9, 9]
    assert share.num_branches == 1


def test_a_known_number_of_rows_is_preferred_where_little_is_lost() -> None:
    answer = make_answer()
    grow_chain(answer, 9, 0.8)
    cost = cost_of(0.2, 0.001)
    assert num_nodes(compose([answer], cost, no_link(), LIMITS)) == 9
    assert num_nodes(compose([answer], cost, slow_link(1, 8), LIMITS)) == 7
    assert num_nodes(compose([answer], cost, slow_link(1), LIMITS)) > 1


def test_a_prompt_is_read_in_known_pieces_where_that_is_cheaper() -> None:
    answer = make_answer(num_prompt=37, num_read=0, num_emitted=0)
    cost = cost_of(0.2, 0.005)
    (share,) = compose([answer], cost, slow_link(1, 5, 32), LIMITS)
    assert share.num_pending == 32
    (share,) = compose([answer], cost, slow_link(1), LIMITS)
    assert share.num_pending == 37
    (share,) = compose([answer], cost, no_link(), LIMITS)
    assert share.num_pending == 37


@pytest.mark.parametrize("fixed_s", [0.001, 0.2])
def test_a_long_prompt_shares_the_pass_with_others(fixed_s: float) -> None:
    running, reading = make_answer(0), make_answer(1, num_prompt=900, num_read=0, num_emitted=0)
    cost = cost_of(fixed_s, 0.004)
    alone = compose([reading], cost, no_link(), LIMITS)[0].num_pending
    shares = compose([running, reading], cost, no_link(), LIMITS)
    assert shares[0].completes
    assert not shares[1].completes
    assert 1 <= shares[1].num_pending < alone <= LIMITS.num_rows
