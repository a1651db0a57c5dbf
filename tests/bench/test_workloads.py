"""The prompts keep the benchmark's promises."""

import json

import pytest

from specproxy.bench.workloads import PROMPTS, WARM_UPS, choose
from specproxy.errors import ConfigError


def test_there_are_enough_of_many_kinds() -> None:
    assert len(PROMPTS) >= 12
    assert len({prompt.kind for prompt in PROMPTS}) >= 12


def test_no_prompt_is_asked_twice_not_even_for_warming() -> None:
    asked = [json.dumps(prompt.messages) for prompt in (*PROMPTS, *WARM_UPS)]
    assert len(set(asked)) == len(asked)
    openings = [prompt.turns[-1] for prompt in (*PROMPTS, *WARM_UPS)]
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
