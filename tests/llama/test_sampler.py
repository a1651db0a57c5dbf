"""Choosing tokens: distributions against numpy, seeds, grammar, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specproxy.core.sampling import SamplingParams
from specproxy.errors import RequestError, SpecproxyError
from specproxy.llama.model import Model
from specproxy.llama.sampler import Sampler
from specproxy.llama.vocabulary import ModelVocabulary

pytestmark = pytest.mark.real
NUM_VOCABULARY = 12
NUM_DRAWS = 4000
SIGNIFICANCE = 1e-4  # the seeds are fixed: a test that passes once passes always
RAW = SamplingParams(seed=7, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
LOGITS = np.linspace(2.0, -2.0, NUM_VOCABULARY, dtype=np.float32)
PAST = [0, 0, 0, 3, 5, 5]
BIAS = np.array([-np.inf, 0, 1] + [0] * 9)


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def top_p(share: float) -> NDArray[Any]:
    probabilities = softmax(LOGITS)  # already in descending order
    kept = np.cumsum(probabilities) - probabilities < share
    return np.where(kept, probabilities, 0) / probabilities[kept].sum()


def min_p(share: float) -> NDArray[Any]:
    probabilities = softmax(LOGITS)
    kept = probabilities >= share * probabilities.max()
    return np.where(kept, probabilities, 0) / probabilities[kept].sum()


def penalised(repeat: float, frequency: float, presence: float) -> NDArray[Any]:
    counts = np.bincount(PAST, minlength=NUM_VOCABULARY)
    scaled = np.where(LOGITS > 0, LOGITS / repeat, LOGITS * repeat)
    logits = np.where(counts > 0, scaled, LOGITS) - counts * frequency - (counts > 0) * presence
    return softmax(logits)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (RAW, softmax(LOGITS)),
        (replace(RAW, temperature=0.6), softmax(LOGITS / 0.6)),
        (replace(RAW, temperature=1.8), softmax(LOGITS / 1.8)),
        (replace(RAW, top_p=0.7), top_p(0.7)),
        (replace(RAW, min_p=0.2), min_p(0.2)),
        (replace(RAW, penalty_repeat=1.4), penalised(1.4, 0, 0)),
        (replace(RAW, penalty_freq=0.5, penalty_present=0.7), penalised(1, 0.5, 0.7)),
        (replace(RAW, logit_bias=((2, 1.0), (0, -np.inf))), softmax(LOGITS + BIAS)),
    ],
)
def test_choices_are_distributed_as_they_should(
    params: SamplingParams, expected: NDArray[Any]
) -> None:
    from scipy.stats import chisquare  # (a second, of whoever collects this file)

    sampler = Sampler(params, None, NUM_VOCABULARY)
    sampler.prime(PAST)
    counts = np.bincount(
        [sampler.choose(LOGITS) for _ in range(NUM_DRAWS)], minlength=NUM_VOCABULARY
    )
    sampler.close()
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], NUM_DRAWS * expected[possible]).pvalue > SIGNIFICANCE


def test_equal_seeds_give_equal_draws_and_none_gives_another_each_time() -> None:
    def draws(seed: int | None) -> tuple[int, list[int]]:
        sampler = Sampler(replace(RAW, seed=seed), None, NUM_VOCABULARY)
        try:
            return sampler.seed, [sampler.choose(LOGITS) for _ in range(64)]
        finally:
            sampler.close()

    assert draws(11) == draws(11)
    assert draws(11)[0] == 11
    assert draws(11) != draws(12)
    seed, drawn = draws(None)
    assert (seed, drawn) != draws(None)
    assert draws(seed) == (seed, drawn)


def test_logits_are_left_as_they_are() -> None:
    logits = LOGITS.copy()
    logits.flags.writeable = False
    for temperature in (0.0, 1.0):
        sampler = Sampler(SamplingParams(seed=1, temperature=temperature), None, NUM_VOCABULARY)
        sampler.choose(logits)
        sampler.close()
    assert (logits == LOGITS).all()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"top_k": 3, "min_p": 0.5},
        {"top_p": 0.3, "top_k": 0},
        {"min_p": 2.0, "top_k": 0},
        {"top_n_sigma": 1.0},
        {"samplers": ("temperature", "top_k", "top_p", "min_p", "top_n_sigma")},
        {"samplers": ("temp",)},
        {"penalty_repeat": 1.5, "penalty_last_n": 0},
        {"xtc_probability": 0.5, "xtc_threshold": 0.6},
    ],
)
def test_greedy_short_cut_is_what_the_chain_gives(changes: dict[str, Any]) -> None:
    """A bias of nothing makes the whole chain run."""
    params = replace(SamplingParams(temperature=0.0, seed=3), **changes)
    short = Sampler(params, None, 3000)
    whole = Sampler(replace(params, logit_bias=((0, 0.0),)), None, 3000)
    assert repr(short).startswith("<Sampler argmax")
    assert repr(whole).startswith("<Sampler chain")
    random = np.random.default_rng(5)
    for num_different in (3000, 300, 30, 3, 1):  # fewer: more ties, at the top as well
        for _ in range(8):
            logits = random.integers(0, num_different, 3000).astype(np.float32) / 7
            assert short.choose(logits) == whole.choose(logits)
    short.close()
    whole.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.1},
        {"dynatemp_range": 0.5},
        {"typical_p": 0.5},
        {"xtc_probability": 0.5},
        {"penalty_repeat": 1.1},
        {"penalty_present": 0.1},
        {"mirostat": 2},
        {"samplers": ("top_k",)},
        {"logit_bias": ((1, 1.0),)},
    ],
)
def test_what_may_choose_another_takes_no_short_cut(changes: dict[str, Any]) -> None:
    params = replace(SamplingParams(temperature=0.0), **changes)
    sampler = Sampler(params, None, NUM_VOCABULARY)
    assert repr(sampler).startswith("<Sampler chain")
    sampler.close()


def test_penalties_forget_what_is_too_long_ago() -> None:
    sampler = Sampler(
        replace(RAW, temperature=0.0, penalty_present=10.0, penalty_last_n=2), None, NUM_VOCABULARY
    )
    sampler.prime([4] * 100 + [0, 1])
    chosen = []
    for _ in range(5):
        chosen.append(sampler.choose(LOGITS))
        sampler.accept(chosen[-1])
    sampler.close()
    assert chosen == [2, 0, 1, 2, 0]


@pytest.fixture
def constrained(model: Model, vocabulary: ModelVocabulary) -> Callable[[str], Sampler]:
    def make(grammar: str) -> Sampler:
        params = SamplingParams(temperature=0.0, grammar=grammar)
        return Sampler(params, model, len(vocabulary))

    return make


def test_a_grammar_rejects_and_the_next_best_is_taken(
    constrained: Callable[[str], Sampler], vocabulary: ModelVocabulary
) -> None:
    yes, no, other = (vocabulary.tokenize(text)[0] for text in ("yes", "no", "perhaps"))
    (end,) = (token for token in range(10) if vocabulary.special_text(token) == "<|im_end|>")
    logits = np.zeros(len(vocabulary), np.float32)
    logits[[other, no, yes]] = 9, 8, 7
    sampler = constrained('root ::= "yes" | "no"')
    sampler.prime([other])  # a prompt need not follow the grammar
    assert sampler.choose(logits) == no
    with pytest.raises(RequestError, match="does not allow"):
        sampler.accept(other)
    sampler.accept(no)
    assert vocabulary.is_end(sampler.choose(logits))
    sampler.accept(end)
    sampler.close()


def test_a_dead_end_of_a_grammar_is_an_error_and_no_abort(
    constrained: Callable[[str], Sampler], vocabulary: ModelVocabulary
) -> None:
    sampler = constrained("root ::= <[1]> [a-z]")  # token 1 is a control token
    logits = np.full(len(vocabulary), -np.inf, np.float32)
    logits[0] = 1.0
    with pytest.raises(RequestError, match="allows no token here"):
        sampler.choose(logits)
    sampler.close()


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("root ::= (", "cannot be parsed"),
        ('start ::= "a"', "does not contain a 'root' symbol"),
        ('root ::= root "a"', "left recursion"),
        ("root ::= other", "cannot be parsed"),
        ("%llguidance {}", "llguidance"),
    ],
)
def test_a_broken_grammar_is_the_client_s_error(
    constrained: Callable[[str], Sampler], grammar: str, message: str
) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        constrained(grammar)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samplers": ("top_k", "best")}, "no sampler 'best'.*Known: penalties, dry"),
        ({"penalty_repeat": 0.0}, "penalty_repeat"),
        ({"penalty_repeat": float("nan")}, "penalty_repeat"),
        ({"penalty_freq": float("inf")}, "penalty_freq"),
        ({"mirostat": 3}, "mirostat"),
        ({"grammar": 'root ::= "a"'}, "vocabulary"),
        ({"dry_multiplier": 1.0}, "vocabulary"),
        ({"ignore_eos": True}, "vocabulary"),
        ({"samplers": ("infill",)}, "vocabulary"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Sampler(replace(RAW, **changes), None, NUM_VOCABULARY)


def test_absurd_values_do_no_harm() -> None:
    params = replace(
        RAW, penalty_last_n=2**31 - 1, penalty_repeat=1.1, min_keep=-3, seed=-5, top_k=-1
    )
    sampler = Sampler(params, None, NUM_VOCABULARY)
    sampler.prime(PAST * 100)
    assert 0 <= sampler.choose(LOGITS) < NUM_VOCABULARY
    sampler.close()


def test_it_holds_its_model_until_it_is_closed(model: Model) -> None:
    before = repr(model)
    sampler = Sampler(RAW, model, 49152)
    assert repr(model) != before
    sampler.close()
    sampler.close()
    assert repr(model) == before
    assert "closed" in repr(sampler)
    with pytest.raises(SpecproxyError, match="closed"):
        sampler.choose(LOGITS)
    with pytest.raises(SpecproxyError, match="closed"):
        sampler.accept(1)
