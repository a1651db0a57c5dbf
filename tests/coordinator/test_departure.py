"""When a pass leaves."""

import pytest

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.departure import departure_s
from specproxy.core.cost import PassCost
from tests.coordinator.answers import grow_chain, make_answer


@pytest.fixture
def cost() -> PassCost:
    cost = PassCost()
    for _ in range(50):
        cost.observe(1, 0.2)
    return cost


def waiting(key: int = 0, *, go_at: int = 4) -> Answer:
    answer = make_answer(key)
    answer.go_at = go_at
    return answer


def test_nobody_leaves_an_empty_station(cost: PassCost) -> None:
    assert departure_s([], 1.0, cost) == float("inf")


def test_an_answer_without_drafts_goes_at_once(cost: PassCost) -> None:
    assert departure_s([make_answer(drafted=False)], 0.0, cost) <= 0.0


def test_an_answer_waits_for_its_drafts_but_a_plain_pass_at_most(cost: PassCost) -> None:
    answer = waiting()
    grow_chain(answer, 3, 0.9)
    assert departure_s([answer], 0.01, cost) == pytest.approx(cost.wait_s)
    grow_chain(answer, 4, 0.9, token=6)
    assert departure_s([answer], 0.02, cost) <= 0.02


def test_a_dead_drafter_costs_two_plain_passes_in_all(cost: PassCost) -> None:
    answer = waiting()
    now_s = waited_s = 0.0
    for _ in range(30):
        leaves_s = departure_s([answer], now_s, cost)
        while leaves_s > now_s:
            waited_s += leaves_s - now_s
            now_s = leaves_s
            leaves_s = departure_s([answer], now_s, cost)
        now_s += 0.2
        answer.passed(now_s)
    assert waited_s <= 2.01 * cost.wait_s
    grow_chain(answer, 4, 0.9)
    for _ in range(4):  # it lives again
        departure_s([answer], now_s, cost)
        answer.passed(now_s)
    answer.tree.advance([9])
    assert departure_s([answer], now_s, cost) == pytest.approx(now_s + cost.wait_s)


def test_the_first_that_is_ready_waits_a_little_for_the_others(cost: PassCost) -> None:
    ready, other = waiting(0, go_at=0), waiting(1)
    assert departure_s([ready, other], 0.0, cost) == pytest.approx(cost.gather_s)
    grow_chain(other, 4, 0.9)
    assert departure_s([ready, other], 0.01, cost) <= 0.01


def test_a_prompt_is_read_without_waiting(cost: PassCost) -> None:
    reading = make_answer(1, num_prompt=50, num_read=0, num_emitted=0)
    assert departure_s([waiting(), reading], 0.0, cost) <= 0.0


def test_no_more_drafts_are_awaited_than_the_budget_has_use_for(cost: PassCost) -> None:
    answer = make_answer(budget=3)
    answer.go_at = 8
    grow_chain(answer, 2, 0.9)
    assert departure_s([answer], 0.0, cost) <= 0.0
