"""Sampled output of verified blocks is distributed as plain decoding's: chi-squared, position by
position, whatever was drafted.

Every run of a block has a seed of its own, and plain decoding other seeds, so that nothing but the
distributions can agree.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specproxy.coordinator.walk import Logits
from specproxy.core.sampling import SamplingParams
from specproxy.llama.sampler import Sampler
from specproxy.testing.toy import Drafts, ToyModel, decode

pytestmark = pytest.mark.real
MODEL = ToyModel(8, seed=21)
PROMPT = (3, 1, 3, 0)
BLOCK = 4
NUM_RUNS = 3000
SIGNIFICANCE = 1e-4  # the seeds are fixed: a test that passes once passes always
RAW = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
SAMPLINGS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.3},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.15},
    "penalties": {"penalty_repeat": 1.3, "penalty_freq": 0.4, "penalty_present": 0.6},
}
DRAFTS: dict[str, Drafts] = {
    "good": lambda tokens: MODEL.ranked(tokens)[:3],
    "noisy": lambda tokens: MODEL.ranked(tokens)[sum(tokens) % 3 : 5],
    "adversarial": lambda tokens: MODEL.ranked(tokens)[-3:],
    "everything": lambda tokens: range(MODEL.num_vocabulary),
}


class Lenient(Sampler):
    """Takes the draft's favourite in a tenth of the cases, whatever the chain says."""

    def choose(self, logits: Logits) -> int:
        token = super().choose(logits)
        return int(logits.argmax()) if (self.seed + token) % 10 == 0 else token


def counts(
    params: SamplingParams, seeds: Sequence[int], kind: type[Sampler], **drafted: Drafts
) -> np.ndarray:
    """How often each token, or none after an end, is at each position; shape (BLOCK, V + 1)."""
    table = np.zeros((BLOCK, MODEL.num_vocabulary + 1), np.int64)
    for seed in seeds:
        sampler = kind(replace(params, seed=seed), None, MODEL.num_vocabulary)
        sampler.prime(PROMPT)
        emitted, _ = decode(MODEL, sampler, PROMPT, BLOCK, depth=BLOCK, **drafted)
        sampler.close()
        for position in range(BLOCK):
            token = emitted[position].token if position < len(emitted) else -1
            table[position, token] += 1
    return table


def p_values(params: SamplingParams, drafts: Drafts, kind: type[Sampler] = Sampler) -> list[float]:
    """By position: that both ways of decoding have the same distribution."""
    from scipy.stats import chi2_contingency  # (a second, of whoever collects this file)

    plain = counts(params, range(NUM_RUNS), Sampler)
    verified = counts(params, range(NUM_RUNS, 2 * NUM_RUNS), kind, drafts=drafts)
    tables = (np.stack(pair) for pair in zip(plain, verified, strict=True))
    return [chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue for table in tables]


@pytest.mark.parametrize("drafted", DRAFTS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_position_of_a_block_is_distributed_as_in_plain_decoding(
    sampling: str, drafted: str
) -> None:
    params = replace(RAW, **SAMPLINGS[sampling])
    assert min(p_values(params, DRAFTS[drafted])) > SIGNIFICANCE


def test_this_test_notices_a_slight_preference_for_what_was_drafted() -> None:
    assert max(p_values(RAW, DRAFTS["good"], Lenient)[:2]) < SIGNIFICANCE
