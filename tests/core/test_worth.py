"""Whether seeding pays, and how far to go with it."""

import pytest

from specproxy.core.window import Window
from specproxy.core.worth import MAX_TRY_EVERY, SHADOW_EVERY, TRY_EVERY, State, Trial, Worth


def passes(worth: Worth, *, fixed_s: float, row_s: float, tokens: int, count: int = 40) -> None:
    """Seeded passes, of one row and of many by turns."""
    for index in range(count):
        num_rows = 1 if index % 2 else 2 * tokens + 6
        worth.passed(num_rows, fixed_s + num_rows * row_s)
        worth.said(1 if num_rows == 1 else tokens)


def test_it_pays_until_the_target_disagrees() -> None:
    worth = Worth(6)
    passes(worth, fixed_s=0.2, row_s=0.004, tokens=12)
    assert worth.begin() is Trial.SEED
    assert worth.expected_gain > 1.5
    num_decided = 0
    while worth.pays:
        worth.decided(hit=False)
        num_decided += 1
    assert 3 < num_decided < 30
    assert worth.expected_gain < 1.05


@pytest.mark.parametrize("duration_s", [0.008, 0.02, 0.1])
def test_a_right_draft_pays_from_the_first_pass_on_however_quick(duration_s: float) -> None:
    worth = Worth(4)
    worth.passed(27, duration_s)
    for _ in range(24):
        worth.decided(hit=True)
    assert worth.pays


def test_then_a_few_answers_are_drafted_and_not_seeded() -> None:
    worth = Worth(6)
    while worth.pays:
        worth.decided(hit=False)
    trials = [worth.begin() for _ in range(4 * SHADOW_EVERY)]
    assert trials.count(Trial.SHADOW) == 4
    assert set(trials) == {Trial.SHADOW, Trial.NONE}
    for _ in range(200):
        worth.decided(hit=True)
    assert worth.begin() is Trial.SEED


@pytest.mark.parametrize(
    ("row_s", "acceptance", "pays"),
    [(0.0001, 0.5, True), (0.0001, 0.05, False), (0.02, 0.5, False), (0.004, 0.9, True)],
)
def test_dear_rows_need_a_better_draft(row_s: float, acceptance: float, pays: bool) -> None:
    worth = Worth(6)
    passes(worth, fixed_s=0.2, row_s=row_s, tokens=8, count=200)
    for number in range(400):
        worth.decided(hit=int((number + 1) * acceptance) > int(number * acceptance))
    assert worth.pays is pays


def test_what_is_right_and_yet_slow_is_given_up_and_tried_again() -> None:
    worth = Worth(6)
    for index in range(60):  # all right, and slower than a plain pass for each token
        worth.passed(1 if index % 2 else 20, 0.05 if index % 2 else 0.3)
        worth.said(1)
        worth.decided(hit=True)
    assert worth.state is State.LOST
    assert not worth.seeds
    trials = [worth.begin() for _ in range(TRY_EVERY)]
    assert [*set(trials[:-1]), trials[-1]] == [Trial.NONE, Trial.SEED]
    assert worth.state is State.TRIED
    assert worth.begin() is Trial.SEED  # until it is decided
    assert worth.seeds
    passes(worth, fixed_s=0.05, row_s=0.001, tokens=10, count=120)
    assert worth.pays


def test_a_trial_that_is_lost_again_is_followed_by_longer_rests() -> None:
    worth, rests = Worth(6), []
    for _ in range(5):
        for index in range(60):
            worth.passed(1 if index % 2 else 20, 0.05 if index % 2 else 0.3)
            worth.said(1)
            worth.decided(hit=True)
        assert worth.state is State.LOST
        rests.append(1)
        while worth.begin() is Trial.NONE:
            rests[-1] += 1
    assert rests == [TRY_EVERY, 2 * TRY_EVERY, 4 * TRY_EVERY, MAX_TRY_EVERY, MAX_TRY_EVERY]


def test_several_answers_are_compared_with_as_many_alone() -> None:
    few, many = Worth(6), Worth(6)
    for worth, num_answers in ((few, 1), (many, 4)):
        for index in range(60):  # two tokens a pass between them
            num_rows = 4 if index % 2 else 20
            worth.passed(num_rows, 0.1 + 0.001 * num_rows, num_answers)
            worth.said(2)
            worth.decided(hit=True)
    assert few.pays
    assert many.state is State.LOST


def test_the_window_follows_the_price_of_a_row() -> None:
    cheap, dear = Worth(6), Worth(6)
    passes(cheap, fixed_s=0.2, row_s=1e-5, tokens=12, count=200)
    passes(dear, fixed_s=0.05, row_s=0.006, tokens=12, count=200)
    window = Window(min_reach=0.02)
    near, far = dear.window(window), cheap.window(window)
    assert far.min_branch_reach == window.min_branch_reach
    assert near.min_branch_reach > 0.3
    assert near.min_reach > far.min_reach


def test_how_far_is_drafted_in_any_case_follows_acceptance() -> None:
    good, bad = Worth(6), Worth(6)
    for _ in range(200):
        good.decided(hit=True)
        bad.decided(hit=False)
    assert good.window(Window()).sure_tokens > 20
    assert bad.window(Window()).sure_tokens == 2


def test_a_prompt_that_is_read_beside_answers_is_not_held_against_seeds() -> None:
    worth = Worth(6)
    passes(worth, fixed_s=0.3, row_s=0.002, tokens=9, count=60)
    for _ in range(4):
        worth.passed(25, 30.0)
        worth.said(1)
    passes(worth, fixed_s=0.3, row_s=0.002, tokens=9, count=60)
    assert worth.pays


def test_what_an_answer_said_after_it_was_given_up_is_not_the_next_trials() -> None:
    worth = Worth(6)
    paces = []
    for num_said in (0, 2000):
        worth.state = State.LOST
        worth.said(num_said)
        while worth.begin() is not Trial.SEED:
            pass
        for index in range(40):
            worth.passed(1 if index % 2 else 20, 0.05 if index % 2 else 0.3)
            worth.said(1)
        paces.append(worth.pace_s)
    assert paces[0] == pytest.approx(paces[1], rel=0.1)
