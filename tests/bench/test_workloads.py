"""The prompts keep the benchmark's promises."""

import itertools
import json
from collections import Counter

import pytest

from specproxy.bench.logbook import logbook
from specproxy.bench.workloads import COLD, LONG, PROMPTS, WARM_UPS, choose, shares
from specproxy.errors import ConfigError

ALL = (*PROMPTS, *LONG, *WARM_UPS, COLD)


def test_there_are_enough_of_many_kinds() -> None:
    assert len(PROMPTS) >= 12
    assert len({prompt.kind for prompt in PROMPTS}) >= 12


def test_no_prompt_is_asked_twice_not_even_for_warming() -> None:
    asked = [json.dumps(prompt.messages) for prompt in ALL]
    assert len(set(asked)) == len(asked)
    openings = [prompt.turns[-1] for prompt in ALL]
    assert len(set(openings)) == len(openings)


def test_messages_alternate_and_end_with_the_user() -> None:
    for prompt in PROMPTS:
        roles = [message["role"] for message in prompt.messages if message["role"] != "system"]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_choose() -> None:
    assert choose(None) == PROMPTS
    assert choose(3) == PROMPTS[:3]
    for wrong in (0, len(PROMPTS) + 1):
        with pytest.raises(ConfigError, match=f"{len(PROMPTS)} prompts"):
            choose(wrong)
    assert choose(2, "long") == LONG[:2]


def test_long_prompts_are_long_and_alike_at_every_run() -> None:
    assert all(5000 < len(prompt.turns[0]) < 9000 for prompt in LONG)
    assert logbook(1) == logbook(1)
    lines = [set(logbook(number).splitlines()) for number in (1, 2, 3, 4)]
    assert all(not one & other for one, other in itertools.combinations(lines, 2))


def test_shares_are_disjoint_and_of_alike_categories() -> None:
    one, other = shares(PROMPTS, 2)
    assert (len(one), len(other)) == (8, 8)
    assert {*one, *other} == {*PROMPTS}
    assert one == [prompt for prompt in PROMPTS if prompt in one]
    counts = [Counter(prompt.category for prompt in share) for share in (one, other)]
    for category in {prompt.category for prompt in PROMPTS}:
        assert abs(counts[0][category] - counts[1][category]) <= 1
