"""The pass clock hears passes, not events."""

import pytest

from specproxy.core.passes import DUE, PassClock


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
