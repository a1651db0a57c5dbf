"""Speculation steps down where it does not pay, and comes back where it does."""

import pytest

from specproxy.core.crossover import FORGET_S, Crossover


def run(
    crossover: Crossover, num_running: int, gain: float, *, answers: int = 60, from_s: float = 0.0
) -> list[bool]:
    """So many answers, one after the other; whether each was sped up."""
    choices = []
    for number in range(answers):
        now_s = from_s + number
        chosen = crossover.speculates(num_running, now_s)
        speed = 10.0 * gain if chosen else 10.0
        crossover.finished(num_running, speed, now_s, speculated=chosen)
        choices.append(chosen)
    return choices


@pytest.mark.parametrize("num_running", [1, 2])
def test_few_answers_are_never_slowed_down_to_learn(num_running: int) -> None:
    assert all(run(Crossover(), num_running, 2.0))


def test_it_stays_where_it_pays() -> None:
    crossover = Crossover()
    choices = run(crossover, 8, 1.5)
    assert sum(choices[20:]) > 0.8 * len(choices[20:])
    assert crossover.steps_down_at is None


def test_it_steps_down_where_it_does_not_and_still_looks_now_and_then() -> None:
    crossover = Crossover()
    choices = run(crossover, 8, 0.7)
    assert crossover.steps_down_at == 8
    late = choices[30:]
    assert 0 < sum(late) < 0.2 * len(late)


@pytest.mark.parametrize("gain", [0.8, 1.3])
def test_where_the_target_drafts_by_itself_both_ways_are_tried_at_once(gain: float) -> None:
    crossover = Crossover()
    crossover.drafts_itself = True
    choices = run(crossover, 1, gain, answers=40)
    assert 2 <= sum(choices[:6]) <= 4
    assert sum(choices[6:]) / len(choices[6:]) == pytest.approx(float(gain > 1.0), abs=0.15)


def test_levels_are_apart() -> None:
    crossover = Crossover()
    run(crossover, 9, 0.5)
    assert all(run(crossover, 1, 0.9))
    assert crossover.steps_down_at == 8


def test_it_comes_back_when_the_draft_gets_better() -> None:
    crossover = Crossover()
    run(crossover, 4, 0.6)
    assert crossover.steps_down_at == 4
    choices = run(crossover, 4, 1.6, answers=120, from_s=100)
    assert crossover.steps_down_at is None
    assert sum(choices[-20:]) > 15


def test_what_passes_through_anyway_is_learned_from_for_few_answers() -> None:
    crossover = Crossover()
    for _ in range(3):
        crossover.finished(1, 5.0, 0.0, speculated=True)
        crossover.finished(1, 10.0, 0.0, speculated=False)
    assert crossover.steps_down_at == 1
    assert not crossover.speculates(1, 1.0)


def test_old_measurements_are_taken_again_soon() -> None:
    crossover = Crossover()
    run(crossover, 4, 0.6, answers=40)
    later = [crossover.speculates(4, 40 + 2 * FORGET_S) for _ in range(8)]
    assert 1 < sum(later) < 4


def test_near_equal_speeds_do_not_swing() -> None:
    crossover = Crossover()
    run(crossover, 4, 0.99)
    assert crossover.steps_down_at is None
