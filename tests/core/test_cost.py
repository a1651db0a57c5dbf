"""The pass-time model."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.cost import PassCost


def test_it_learns_both_parts_from_noisy_passes() -> None:
    dice = random.Random(1)
    cost = PassCost()
    for _ in range(60):
        rows = dice.choice([1, 1, 8, 12, 20])
        cost.observe(rows, (0.2 + 0.005 * rows) * dice.uniform(0.97, 1.03))
    assert cost.fixed_s == pytest.approx(0.2, rel=0.1)
    assert cost.row_s == pytest.approx(0.005, rel=0.3)
    assert cost.rows_in(1.0) == pytest.approx(200, rel=0.3)
    assert cost.wait_s == pytest.approx(cost.pass_s(1))
    assert 0 < cost.gather_s < 0.3 * cost.wait_s


def test_one_hiccup_changes_little_and_a_new_link_is_learned() -> None:
    cost = PassCost()
    for _ in range(30):
        cost.observe(1, 0.1)
    cost.observe(1, 30.0)
    assert cost.pass_s(1) < 0.15
    for _ in range(200):
        cost.observe(1, 0.3)
    assert cost.pass_s(1) == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("duration_s", [0.005, 0.02, 0.5])
def test_the_first_pass_is_not_taken_for_the_price_of_its_rows(duration_s: float) -> None:
    cost = PassCost()
    cost.observe(27, duration_s)
    assert cost.pass_s(27) == pytest.approx(duration_s)
    assert cost.pass_s(1) > 0.4 * duration_s


def test_prompts_say_nothing_of_small_passes() -> None:
    cost = PassCost()
    before = cost.pass_s(1)
    cost.observe(512, 100.0)
    assert cost.pass_s(1) == before
    assert cost.num_observed == 0


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0, 10))))
def test_both_parts_stay_positive(passes: list[tuple[int, float]]) -> None:
    cost = PassCost()
    for rows, duration_s in passes:
        cost.observe(rows, duration_s)
        assert cost.fixed_s > 0
        assert cost.row_s > 0
        assert cost.rows_in(0.1) >= 1
