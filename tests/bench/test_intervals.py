"""Intervals hold the figure, shrink with agreement, and know when they know nothing."""

import pytest

from specproxy.bench.intervals import FEWEST, rate_interval, ratio_interval
from specproxy.bench.stats import Portion, speed

ALIKE = [Portion(10, 2.0)] * 8
MIXED = [Portion(10, seconds) for seconds in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)]


def slower(parts: list[Portion], times: float) -> list[Portion]:
    return [Portion(one.num_tokens, one.seconds * times) for one in parts]


def test_equal_portions_leave_no_doubt() -> None:
    interval = rate_interval(ALIKE)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((5.0, 5.0))


def test_it_holds_the_speed_and_is_the_same_every_time() -> None:
    interval = rate_interval(MIXED)
    assert interval is not None
    assert speed(MIXED) in interval
    assert interval.low < interval.high
    assert interval == rate_interval(MIXED)


def test_more_prompts_make_it_narrower() -> None:
    few, many = rate_interval(MIXED), rate_interval(MIXED * 8)
    assert few is not None
    assert many is not None
    assert many.high - many.low < (few.high - few.low) / 2


def test_a_ratio_compares_the_same_prompts() -> None:
    """However unlike the prompts are: what is twice as slow on each is so beyond doubt."""
    interval = ratio_interval(MIXED, slower(MIXED, 2.0))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((2.0, 2.0))
    shuffled = ratio_interval(MIXED, slower(MIXED[::-1], 2.0))
    assert shuffled is not None
    assert shuffled.low < 1.5 < 2.5 < shuffled.high


def test_about_nineteen_of_twenty_hold_the_truth() -> None:
    """Answers drawn from a known distribution of times: 0.5 to 1.5 s for each 10 tokens."""
    import random

    rng = random.Random(7)
    held = 0
    for _ in range(60):
        parts = [Portion(10, 0.5 + rng.random()) for _ in range(16)]
        interval = rate_interval(parts)
        assert interval is not None
        held += 10.0 in interval
    assert held >= 50


@pytest.mark.parametrize("parts", [[], ALIKE[: FEWEST - 1], [Portion(0, 0.0)] * 8])
def test_too_little_gives_none(parts: list[Portion]) -> None:
    assert rate_interval(parts) is None
    assert ratio_interval(parts, parts) is None


def test_arms_with_prompts_of_their_own_are_drawn_apart() -> None:
    parts = [Portion(10, seconds) for seconds in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    paired = ratio_interval(parts, parts)
    apart = ratio_interval(parts, parts[:-1], paired=False)
    assert paired is not None
    assert (paired.low, paired.high) == (1.0, 1.0)
    assert apart is not None
    assert apart.low < 0.8
    assert apart.high > 1.2
    assert ratio_interval(parts, parts[:2], paired=False) is None
