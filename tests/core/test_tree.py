"""The draft tree follows the target, whatever was drafted and whenever it comes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.drafted import DraftToken
from specproxy.core.stats import DraftCounts
from specproxy.core.tree import DraftTree, Node, SeedState

TOKENS = st.integers(0, 3)
ORDERS = st.lists(
    st.tuples(
        st.sampled_from(["advance", "extend", "branch", "late"]),
        st.integers(0, 20),
        st.lists(TOKENS, max_size=5),
    ),
    max_size=25,
)


def drafted(tokens: Sequence[int]) -> list[DraftToken]:
    return [DraftToken(token, 0.5, ((token + 10, 0.2),)) for token in tokens]


def line_tokens(tree: DraftTree) -> list[int]:
    return [node.token for node in tree.main_line()]


def all_nodes(tree: DraftTree) -> list[Node]:
    nodes = [tree.root]
    for node in nodes:
        nodes += node.children
    return nodes


@given(prompt=st.lists(TOKENS, max_size=6), orders=ORDERS, num_context=st.integers(1, 6))
def test_the_tree_stays_sound(
    prompt: list[int], orders: list[tuple[str, int, list[int]]], num_context: int
) -> None:
    tree = DraftTree(prompt)
    counts = DraftCounts()
    said = list(prompt)
    seen = all_nodes(tree)
    for kind, place, tokens in orders:
        line = tree.main_line()
        if kind == "advance":
            counts.saw(tree.advance(tokens))
            said += tokens
        elif kind == "branch" and line:
            node = line[place % len(line)]
            if node.parent is not None and node.parent.child(9) is None:
                seen.append(tree.branch(node.parent, 9, 0.1))
        elif kind == "late":  # any node that ever was, perhaps long gone
            tree.extend(seen[place % len(seen)], drafted(tokens))
        else:
            tree.extend(tree.tip, drafted(tokens))
        seen += all_nodes(tree)
        check(tree, said, num_context)
    num_seen = counts.num_confirmed + counts.num_missed + counts.num_undrafted
    assert num_seen == len(said) - len(prompt)
    assert counts.num_branched <= counts.num_confirmed


def check(tree: DraftTree, said: list[int], num_context: int) -> None:
    assert tree.tokens == said
    assert tree.root.position == len(said) - 1
    assert tree.num_ahead == len(tree.main_line())
    for node in all_nodes(tree):
        assert tree.holds(node)
        context = tree.context(node)
        assert len(context) == node.position + 1
        assert context[: len(said)] == said
        assert tree.tail(node, num_context) == context[-num_context:]
        assert len({child.token for child in node.children}) == len(node.children)
    runs = tree.unseeded(num_context)
    carried = [node for run in runs for node in run.nodes]
    drafts = all_nodes(tree)[1:]
    planned = {node for node in drafts if node.state is SeedState.PLANNED}
    assert set(carried) == {node for node in planned if not is_lone_branch(node)}
    assert len(carried) == len(set(carried))
    for run in runs:
        before = tree.context(run.nodes[0])[:-1]
        assert before[len(before) - len(run.context) :] == list(run.context)
        if run.barred is not None:
            assert before[-len(run.context) - 1] == run.barred


def is_lone_branch(node: Node) -> bool:
    """A branch's first token that nothing unsent follows: it ends no key, so it teaches nothing."""
    assert node.parent is not None
    follows = bool(node.children) and node.children[0].state is SeedState.PLANNED
    return node is not node.parent.children[0] and not follows


def test_advance_tells_what_became_of_the_draft() -> None:
    tree = DraftTree([1, 2])
    tree.extend(tree.root, drafted([3, 4, 5]))
    tree.extend(tree.branch(tree.main_line()[0], 6, 0.2), drafted([7]))
    first = tree.main_line()[0]
    first.state = SeedState.POOLED
    advance = tree.advance([3, 6, 7, 8, 9])
    assert (advance.num_confirmed, advance.num_branched) == (2, 1)
    assert (advance.num_missed, advance.num_undrafted, advance.num_pooled) == (0, 2, 1)
    assert [(node.token, token) for node, token in advance.decided] == [(3, 3), (4, 6), (7, 7)]
    tree.extend(tree.root, drafted([1]))
    assert tree.advance([2]).num_missed == 1
    assert tree.num_ahead == 0


def test_the_branch_that_is_taken_becomes_the_main_line() -> None:
    tree = DraftTree([1])
    tree.extend(tree.root, drafted([2, 3]))
    branch = tree.branch(tree.root, 4, 0.3)
    tree.extend(branch, drafted([5, 6]))
    assert line_tokens(tree) == [2, 3]
    gone = tree.tip
    tree.advance([4])
    assert line_tokens(tree) == [5, 6]
    assert not tree.holds(gone)
    assert tree.extend(gone, drafted([7])) == 0


def test_a_late_draft_joins_where_the_target_is_now() -> None:
    tree = DraftTree([1, 2])
    start = tree.root
    tree.advance([3, 4])
    assert tree.extend(start, drafted([3, 4, 5, 6])) == 2
    assert line_tokens(tree) == [5, 6]
    assert tree.extend(start, drafted([3, 4])) == 0
    assert tree.extend(start, drafted([3])) == 0


def test_a_late_draft_that_was_contradicted_is_dropped() -> None:
    tree = DraftTree([1, 2])
    start = tree.root
    tree.extend(start, drafted([3, 4]))
    tip = tree.tip
    tree.advance([3, 9])
    assert tree.extend(start, drafted([3, 4, 5])) == 0
    assert tree.extend(tip, drafted([5])) == 0
    assert tree.num_ahead == 0


def test_a_draft_of_what_is_there_adds_only_what_is_new() -> None:
    tree = DraftTree([1])
    tree.branch(tree.root, 2, 0.4)
    assert tree.extend(tree.root, drafted([2, 3])) == 1
    assert line_tokens(tree) == [2, 3]
    assert tree.main_line()[0].alternatives == ((12, 0.2),)


def test_runs_come_main_line_first_and_know_their_context() -> None:
    tree = DraftTree(range(8))
    tree.extend(tree.root, drafted([10, 11, 12]))
    tree.extend(tree.branch(tree.root, 20, 0.2), drafted([21]))
    tree.extend(tree.branch(tree.main_line()[1], 30, 0.1), drafted([31]))
    main, near, far = tree.unseeded(3)
    assert (main.tokens, main.context, main.branches) == ((10, 11, 12), (5, 6, 7), False)
    assert (near.tokens, near.context, near.barred) == ((20, 21), (6, 7), 5)
    assert (far.tokens, far.context, far.barred) == ((30, 31), (10, 11), 7)
    main.cut(2).mark(SeedState.SENT)
    assert (tree.num_seeded, tree.num_unsent) == (2, 1)
    assert tree.unseeded(3)[0].tokens == (12,)


def test_a_run_has_no_gaps() -> None:
    """A seed that failed while a later one arrived must not join what is apart."""
    tree = DraftTree(range(8))
    tree.extend(tree.root, drafted([10, 11, 12, 13]))
    tree.main_line()[1].state = SeedState.POOLED
    assert [run.tokens for run in tree.unseeded(3)] == [(10,)]
    tree.main_line()[0].state = SeedState.POOLED
    assert [run.tokens for run in tree.unseeded(3)] == [(12, 13)]


def test_a_run_behind_a_branch_is_barred_too() -> None:
    tree = DraftTree(range(8))
    tree.extend(tree.root, drafted([10]))
    head = tree.branch(tree.root, 20, 0.2)
    tree.extend(head, drafted([21, 22, 23]))
    for run in tree.unseeded(3):
        run.mark(SeedState.POOLED)
    tree.extend(head, drafted([21, 22, 23, 24]))
    (run,) = tree.unseeded(3)
    assert (run.context, run.barred, run.branches) == ((21, 22, 23), None, False)
    head.children[0].state = SeedState.PLANNED
    run = tree.unseeded(3)[0]
    assert (run.context, run.barred, run.branches) == ((6, 7, 20), 5, True)
