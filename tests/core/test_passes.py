"""The pass clock hears passes, not events."""

import pytest

from specproxy.core.passes import DUE, LEAST_DUE, PassClock


def test_tokens_of_one_pass_are_one_arrival() -> None:
    clock = PassClock()
    for i in range(8):
        for token in range(1 if i < 2 else 4):
            clock.heard(i * 0.2 + token * 0.001)
    assert clock.period_s == pytest.approx(0.2, abs=0.01)
    assert clock.num_passes == 8


def test_a_seed_waits_for_most_of_a_pass() -> None:
    clock = PassClock()
    assert clock.wait_s(5.0) == 0.0
    for i in range(4):
        clock.heard(i * 0.2)
    waits = [clock.wait_s(0.6 + 0.02 * i) for i in range(12)]
    assert waits[0] == pytest.approx(DUE * 0.2)
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == 0.0


def test_a_pause_between_answers_is_no_pass() -> None:
    clock = PassClock()
    for start in (0.0, 100.0):
        clock.quiet()
        for i in range(4):
            clock.heard(start + i * 0.2)
    assert clock.period_s == pytest.approx(0.2)
    clock.quiet()
    assert clock.wait_s(100.7) == 0.0


def test_a_seed_for_a_target_far_away_leaves_earlier() -> None:
    near, far = PassClock(), PassClock()
    far.travel_s = 0.05
    for i in range(4):
        assert near.heard(i * 0.2)
        assert far.heard(i * 0.2)
    assert far.wait_s(0.6) == pytest.approx(near.wait_s(0.6) - 0.05)


def test_the_expected_length_counts_until_the_pass_ends() -> None:
    clock = PassClock()
    for i in range(4):
        clock.heard(i * 0.2)
    assert clock.unsettled_s(0.6) > 0.0
    assert clock.unsettled_s(0.7) == 0.0
    clock.expect(0.4)
    assert clock.wait_s(0.6) == pytest.approx(DUE * 0.4)
    assert not clock.heard(0.61)
    assert clock.heard(1.0)
    assert clock.last_s == pytest.approx(0.4)
    assert clock.wait_s(1.0) == pytest.approx(DUE * 0.2)


def test_where_passes_end_before_a_seed_was_due_the_next_leaves_earlier() -> None:
    clock = PassClock()
    for i in range(4):
        clock.heard(i * 0.2)
    clock.missed()
    assert clock.wait_s(0.6) < 0.9 * DUE * 0.2
    for _ in range(20):
        clock.met()
    assert clock.wait_s(0.6) == pytest.approx(DUE * 0.2)


def test_however_often_passes_end_early_seeds_leave_late_in_a_pass() -> None:
    clock = PassClock()
    for i in range(4):
        clock.heard(i * 0.2)
    for _ in range(50):
        clock.missed()
    assert clock.wait_s(0.6) == pytest.approx(LEAST_DUE * 0.2)
    for _ in range(30):
        clock.met()
    assert clock.wait_s(0.6) == pytest.approx(DUE * 0.2)
