"""Walking along trees: where it stops, what it reports, and that no tree changes the tokens."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specproxy.coordinator.walk import Logits, describe, walk
from specproxy.core.sampling import SamplingParams
from specproxy.llama.sampler import Sampler
from specproxy.testing.toy import Drafts, ToyModel, ToyNode, decode, grow

PROMPT = (1, 2)
NUM_TOKENS = 60
MODEL = ToyModel(12, seed=3)


class Greedy:
    """Chooses the largest, and keeps what it was told."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def choose(self, logits: Logits) -> int:
        return int(logits.argmax())

    def accept(self, token: int) -> None:
        self.accepted.append(token)


def good(tokens: Sequence[int]) -> list[int]:
    return MODEL.ranked(tokens)[:3]


def noisy(tokens: Sequence[int]) -> list[int]:
    random = np.random.default_rng(sum(tokens))
    ranked = MODEL.ranked(tokens)
    return [ranked[0] if random.random() < 0.5 else ranked[4], ranked[2]]


def adversarial(tokens: Sequence[int]) -> list[int]:
    return MODEL.ranked(tokens)[1:]


def everything(tokens: Sequence[int]) -> list[int]:
    return list(range(MODEL.num_vocabulary))


DRAFTS: dict[str, Drafts] = {
    "good": good,
    "noisy": noisy,
    "adversarial": adversarial,
    "everything": everything,
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "greedy with penalties": {"temperature": 0.0, "penalty_repeat": 1.5, "penalty_freq": 0.3},
    "defaults": {},
    "temperature": {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "dynatemp": {"dynatemp_range": 0.7},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.6, "top_k": 0},
    "min_p": {"min_p": 0.3},
    "typical": {"typical_p": 0.6},
    "top_n_sigma": {"top_n_sigma": 0.8},
    "xtc": {"xtc_probability": 0.6, "xtc_threshold": 0.05},
    "penalties": {"penalty_repeat": 1.4, "penalty_present": 0.5, "penalty_last_n": 9},
    "mirostat": {"mirostat": 1, "mirostat_tau": 2.0},
    "mirostat 2": {"mirostat": 2, "mirostat_tau": 2.0},
    "bias": {"logit_bias": ((3, 2.0), (4, -math.inf))},
}


@pytest.mark.real
@pytest.mark.parametrize("drafted", DRAFTS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_no_tree_changes_a_token(sampling: str, drafted: str) -> None:
    params = replace(SamplingParams(), **SAMPLINGS[sampling])
    for seed in range(8):
        outputs, passes = [], []
        for drafts in (None, DRAFTS[drafted]):
            sampler = Sampler(replace(params, seed=seed), None, MODEL.num_vocabulary)
            sampler.prime(PROMPT)
            options = {} if drafts is None else {"drafts": drafts}
            emitted, num_passes = decode(
                MODEL, sampler, PROMPT, NUM_TOKENS, num_top_logprobs=2, **options
            )
            sampler.close()
            outputs.append(emitted)
            passes.append(num_passes)
        assert outputs[0] == outputs[1]
        assert passes[0] == len(outputs[0])
        if drafted == "everything":
            assert passes[1] == math.ceil(len(outputs[1]) / 5)
        if drafted == "adversarial" and sampling == "greedy":
            assert passes[1] == len(outputs[1])


def take(drafts: Drafts, depth: int, **options: Any) -> tuple[list[int], list[int], bool]:
    walked = walk(
        MODEL.logits(PROMPT),
        grow(PROMPT, drafts, depth),
        options.pop("logits_of", lambda node: MODEL.logits(node.tokens)),
        options.pop("sampler", Greedy()),
        is_end=options.pop("is_end", lambda token: False),
        budget=options.pop("budget", 100),
        **options,
    )
    path = [node.token for node in walked.path]
    return [one.token for one in walked.emitted], path, walked.ended


def greedy_tokens(count: int) -> list[int]:
    tokens = list(PROMPT)
    for _ in range(count):
        tokens.append(MODEL.ranked(tokens)[0])
    return tokens[2:]


def test_a_right_path_gives_all_its_tokens_and_one_more() -> None:
    sampler = Greedy()
    assert take(good, 4, sampler=sampler) == (greedy_tokens(5), greedy_tokens(4), False)
    assert sampler.accepted == greedy_tokens(5)


def test_a_miss_gives_the_target_s_token_and_no_node() -> None:
    assert take(adversarial, 4) == (greedy_tokens(1), [], False)
    assert take(good, 0) == (greedy_tokens(1), [], False)


def test_the_budget_and_an_end_stop_inside_the_tree() -> None:
    assert take(good, 4, budget=3) == (greedy_tokens(3), greedy_tokens(3), False)
    assert take(good, 4, budget=1) == (greedy_tokens(1), greedy_tokens(1), False)
    last = greedy_tokens(2)[-1]
    assert last not in greedy_tokens(1)
    assert take(good, 4, is_end=lambda token: token == last) == (
        greedy_tokens(2),
        greedy_tokens(2),
        True,
    )


def test_a_node_that_was_not_in_the_pass_is_no_part_of_the_path() -> None:
    def early_rows(node: ToyNode) -> Logits | None:
        return MODEL.logits(node.tokens) if len(node.tokens) < len(PROMPT) + 3 else None

    assert take(good, 4, logits_of=early_rows) == (greedy_tokens(3), greedy_tokens(2), False)


def test_logprobs_are_those_of_the_raw_logits() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32)) + 5
    plain = describe(2, logits, None)
    assert plain.logprob is None
    assert plain.top == ()
    alone = describe(2, logits, 0)
    assert alone.logprob == pytest.approx(math.log(0.2), abs=1e-6)
    assert alone.top == ()
    most = describe(2, logits, 3)
    assert [token for token, _ in most.top] == [1, 3, 2]
    assert [math.exp(one) for _, one in most.top] == pytest.approx([0.4, 0.3, 0.2], abs=1e-6)
    assert len(describe(2, logits, 99).top) == 4
    assert [token for token, _ in describe(0, np.zeros(4, np.float32), 4).top] == [0, 1, 2, 3]
