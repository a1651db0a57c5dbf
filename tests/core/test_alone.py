"""The target's own speed, by the best that is known."""

import pytest

from specproxy.core.alone import MIN_ESTIMATED, MIN_MEASURED, Alone, AlonePace, Basis
from specproxy.core.cost import PassCost


def seeded(pace: AlonePace, *, fixed_s: float, row_s: float, num_passes: int = 60) -> None:
    """Passes with drafts and seeds in them, of 10 to 30 rows."""
    for number in range(num_passes):
        num_rows = 10 + number % 21
        duration_s = fixed_s + num_rows * row_s
        pace.passed(duration_s, plain=False)
        if pace.cost is not None:
            pace.cost.observe(num_rows, duration_s)


def test_nothing_is_said_of_a_few_passes() -> None:
    pace = AlonePace()
    seeded(pace, fixed_s=0.2, row_s=0.005, num_passes=MIN_ESTIMATED - 1)
    assert pace.alone() is None


def test_the_shortest_passes_where_nobody_knows_rows() -> None:
    pace = AlonePace()
    seeded(pace, fixed_s=0.2, row_s=0.005)
    alone = pace.alone()
    assert alone is not None
    assert alone.basis is Basis.ESTIMATED
    assert 1 / 0.27 < alone.tokens_per_s < 1 / 0.25


def test_by_what_rows_cost() -> None:
    pace = AlonePace()
    pace.cost = PassCost()
    seeded(pace, fixed_s=0.2, row_s=0.005)
    alone = pace.alone()
    assert alone is not None
    assert alone.basis is Basis.MODELLED
    assert alone.tokens_per_s == pytest.approx(1 / 0.205, rel=0.05)


def test_never_slower_than_the_shortest_passes() -> None:
    pace = AlonePace()
    pace.cost = PassCost()
    for _ in range(60):
        pace.cost.observe(1, 0.5)  # of another time
        pace.passed(0.1, plain=False)
    alone = pace.alone()
    assert alone is not None
    assert alone.tokens_per_s == pytest.approx(10.0)


def test_measured_passes_are_better_than_both() -> None:
    pace = AlonePace()
    pace.cost = PassCost()
    seeded(pace, fixed_s=0.2, row_s=0.005)
    for _ in range(MIN_MEASURED):
        pace.passed(0.15, plain=True)
    assert pace.alone() == Alone(1 / 0.15, Basis.MEASURED, MIN_MEASURED)
