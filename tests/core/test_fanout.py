"""How long a fan-out round should be."""

import pytest

from specproxy.core.fanout import AMORTISED_ROUNDS, HeldPrefixes, RoundCost, choose_block, kept


def test_the_cost_is_found_among_slow_first_passes() -> None:
    cost = RoundCost()
    assert cost.seconds(5) is None
    for rows in (4, 9, 16, 25, 36, 20):
        cost.took(rows, 0.2 + 0.005 * rows)
    cost.took(30, 0.9)
    assert cost.seconds(50) == pytest.approx(0.45, rel=0.05)


def test_a_number_of_rows_that_is_new_to_the_target_costs_more() -> None:
    cost = RoundCost()
    cost.warmed(range(40))
    for rows in (4, 9, 16, 25):
        cost.took(rows, 0.2 + 0.005 * rows)
    assert cost.surcharge_s(50) == 0.0  # not seen to matter
    cost.took(50, 1.2)
    assert cost.surcharge_s(60) == pytest.approx(0.75, rel=0.05)
    assert cost.surcharge_s(50) == cost.surcharge_s(39) == 0.0
    for rows in range(60, 70):
        cost.took(rows, 0.2 + 0.005 * rows)
    assert cost.surcharge_s(90) < 0.01


def test_equal_rounds_are_all_base() -> None:
    cost = RoundCost()
    cost.took(4, 0.2)
    cost.took(4, 0.2)
    assert (cost.base_s, cost.row_s) == (0.2, 0.0)


def test_rows_after_a_round_do_not_hang_on_the_slots_chosen() -> None:
    held = HeldPrefixes(8)
    held.placed(100, 4, 0)
    num_drafted, num_context = 4, 101
    assert held.rows(num_context, num_drafted) == 5 * 1 + 10
    held.placed(num_context, num_drafted, 2)  # two were right, then the target's own
    # held: 101, 102, 103, 103, 103
    assert held.rows(104, 4) == (1 + 1 + 1 + 2 + 3) + 10
    assert held.rows(104, 0) == 1


def test_filling_a_slot_counts_for_the_rounds_that_it_serves() -> None:
    held = HeldPrefixes(8)
    held.placed(100, 0, 0)
    assert held.evaluated(101, 1) == 1 + 101 + 1
    assert held.rows(101, 1) == 1 + 101 / AMORTISED_ROUNDS + 1
    assert held.num_warm == 1


def test_slots_are_filled_gradually() -> None:
    cost = RoundCost()
    assert cost.affordable(100) == 1
    for rows in (1, 21):
        cost.took(rows, 0.2 + 0.005 * rows)
    assert [cost.affordable(length) for length in (10, 20, 1000)] == [4, 2, 1]


@pytest.mark.parametrize(
    ("acceptance", "row_s", "least", "most"),
    [(1.0, 0.0, 8, 8), (1.0, 0.005, 4, 7), (0.1, 0.005, 0, 1), (0.9, 0.002, 4, 8)],
)
def test_the_block_follows_cost_and_acceptance(
    acceptance: float, row_s: float, least: int, most: int
) -> None:
    block = choose_block([acceptance] * 8, 8, 0.01, lambda k: 0.2 + row_s * (k + 1) ** 2)
    assert least <= block <= most


def test_a_slow_draft_is_not_waited_for() -> None:
    def flat(_num_drafted: int) -> float:
        return 0.1

    assert choose_block([0.9] * 8, 2, 1.0, flat) == 2
    assert choose_block([0.9] * 8, 2, 0.001, flat) == 8


def test_before_any_round_all_that_is_ready_goes() -> None:
    assert choose_block([0.9] * 8, 3, None, lambda _: None) == 3
    assert choose_block([0.9] * 2, 3, None, lambda _: None) == 2


def test_drafts_are_kept_until_the_target_differs() -> None:
    assert kept([1, 2, 3], [1, 2, 9, 4]) == 2
    assert kept([1, 2], [1, 2, 3]) == 2
    assert kept([], [7]) == 0
