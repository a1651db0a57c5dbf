"""When our own pass leaves: what waiting costs against what it carries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.horizon import DraftPace, PassPace, nodes_to_await


def test_nothing_is_awaited_while_nothing_is_known() -> None:
    assert nodes_to_await(None, 0.2, 0.9, 12) == 0
    assert nodes_to_await(0.02, None, 0.9, 12) == 0


@given(st.floats(1e-4, 1.0), st.floats(1e-3, 5.0), st.floats(0, 1), st.integers(0, 32))
def test_never_more_than_may_be_drafted(
    token_s: float, pass_s: float, acceptance: float, lookahead: int
) -> None:
    assert 0 <= nodes_to_await(token_s, pass_s, acceptance, lookahead) <= lookahead


def test_a_useless_draft_is_not_waited_for() -> None:
    assert nodes_to_await(0.02, 0.2, 0.0, 12) == 0
    assert nodes_to_await(0.02, 0.2, 0.05, 12) == 0


def test_a_quick_draft_is_waited_for_on_a_slow_pool() -> None:
    assert nodes_to_await(0.001, 0.5, 0.95, 12) >= 8


def test_a_dear_draft_works_while_passes_run() -> None:
    """It takes as long as the pass: what is drafted during it is ready for the next."""
    assert nodes_to_await(0.2, 0.2, 0.9, 12) <= 1


def test_the_draft_pace_follows_what_it_is_told() -> None:
    pace = DraftPace()
    pace.drafted(0, 1.0)
    assert pace.token_s is None
    pace.drafted(4, 0.4)
    assert pace.token_s == pytest.approx(0.1)
    for _ in range(50):
        pace.drafted(1, 0.02)
    assert pace.token_s == pytest.approx(0.02, rel=0.05)


def test_one_slow_pass_says_little_and_a_slow_link_is_believed() -> None:
    pace = PassPace()
    for _ in range(5):
        pace.passed(0.2)
    pace.passed(1.0)
    assert pace.pass_s is not None
    assert pace.pass_s < 0.25
    for _ in range(60):
        pace.passed(1.0)
    assert pace.pass_s == pytest.approx(1.0, rel=0.1)
