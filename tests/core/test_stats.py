"""Counts add up, and rates are of them."""

from dataclasses import astuple

import pytest

from specproxy.core.stats import DraftCounts
from specproxy.core.tree import Advance


def test_rates_of_nothing_are_unknown() -> None:
    counts = DraftCounts()
    assert counts.acceptance_rate is None
    assert counts.draft_hit_rate is None
    assert counts.tokens_per_pass is None


def test_the_targets_counts_and_the_proxys() -> None:
    counts = DraftCounts()
    counts.saw(Advance(num_confirmed=5, num_branched=1, num_missed=2, num_pooled=4))
    counts.saw(Advance(num_undrafted=3))
    assert (counts.num_confirmed, counts.num_branched, counts.num_missed) == (6, 1, 2)
    assert (counts.num_undrafted, counts.num_pooled) == (3, 4)
    assert counts.draft_hit_rate == 6 / 8
    counts.finished({"predicted_n": 30, "draft_n": 40, "draft_n_accepted": 20})
    assert counts.acceptance_rate == 0.5
    assert counts.tokens_per_pass == 3.0
    counts.finished({"predicted_n": 10})  # the target proposed nothing
    assert counts.tokens_per_pass == 2.0
    assert counts.num_answers == 2


def test_counts_add_up() -> None:
    one = DraftCounts(*range(11))
    total = DraftCounts()
    total.add(one)
    total.add(one)
    assert astuple(total) == tuple(2 * i for i in range(11))


@pytest.mark.parametrize("odd", [None, "5", 1e999, float("nan"), -3, [], True])
def test_odd_counts_of_a_target_count_nothing(odd: object) -> None:
    counts = DraftCounts()
    counts.finished({"predicted_n": odd, "draft_n": odd, "draft_n_accepted": odd})
    assert counts == DraftCounts(num_answers=1)
