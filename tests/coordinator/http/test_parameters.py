"""Fields of requests: llama-server's names, defaults, bounds; what is refused."""

from typing import Any

import pytest

from specproxy.coordinator.http.fields import Fields
from specproxy.coordinator.http.parameters import Parameters, read_parameters
from specproxy.core.sampling import DEFAULT_SAMPLERS, SamplingParams
from specproxy.errors import RequestError
from specproxy.testing import ToyVocabulary

VOCABULARY = ToyVocabulary()


def read(**body: Any) -> Parameters:
    return read_parameters(Fields(body), VOCABULARY, grammar="", max_choices=4)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert read().sampling == SamplingParams()
    assert read() == Parameters(SamplingParams())


def test_null_is_absent() -> None:
    assert read(temperature=None, stop=None, seed=None, logit_bias=None) == read()


@pytest.mark.parametrize("name", ["n_predict", "max_tokens", "max_completion_tokens"])
def test_the_limit_has_three_names(name: str) -> None:
    assert read(**{name: 7}).num_predict == 7


def test_the_native_name_of_a_limit_wins() -> None:
    assert read(max_tokens=3, n_predict=5, max_completion_tokens=4).num_predict == 5


@pytest.mark.parametrize(("num_predict", "expected"), [(-1, None), (0, 1), (1, 1), (9, 9)])
def test_no_limit_and_none_at_all(num_predict: int, expected: int | None) -> None:
    assert read(n_predict=num_predict).request((1,), 0).max_tokens == expected


@pytest.mark.parametrize(
    ("field", "given", "name", "expected"),
    [
        ("temperature", -3, "temperature", 0.0),
        ("top_p", 7, "top_p", 1.0),
        ("min_p", -1, "min_p", 0.0),
        ("top_k", -5, "top_k", 0),
        ("top_k", 2.9, "top_k", 2),
        ("mirostat", 5, "mirostat", 2),
        ("dry_base", 0.5, "dry_base", 1.75),
        ("repeat_last_n", 0, "penalty_last_n", 0),
        ("frequency_penalty", 0.5, "penalty_freq", 0.5),
        ("presence_penalty", -0.5, "penalty_present", -0.5),
        ("ignore_eos", True, "ignore_eos", True),
        ("seed", -1, "seed", None),
        ("seed", 4294967295, "seed", None),
        ("seed", -5, "seed", 4294967291),
        ("samplers", "kt", "samplers", ("top_k", "temperature")),
        ("samplers", ["TOP-P", "temp"], "samplers", ("top_p", "temperature")),
        ("samplers", [], "samplers", ()),
        ("samplers", list(DEFAULT_SAMPLERS), "samplers", DEFAULT_SAMPLERS),
        ("dry_sequence_breakers", ["a"], "dry_sequence_breakers", ("a",)),
    ],
)
def test_sampling_fields(field: str, given: Any, name: str, expected: Any) -> None:
    assert getattr(read(**{field: given}).sampling, name) == expected


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ([[7, 1.5]], ((7, 1.5),)),
        ([[7, False]], ((7, float("-inf")),)),
        ({"7": -2}, ((7, -2.0),)),
        ({" sea": 1}, ((VOCABULARY.tokenize(" sea")[0], 1.0),)),
        ([[" sea", 1]], ((VOCABULARY.tokenize(" sea")[0], 1.0),)),
        ([[10**6, 1]], ()),
        ({}, ()),
    ],
)
def test_logit_bias_has_many_forms(bias: Any, expected: Any) -> None:
    assert read(logit_bias=bias).sampling.logit_bias == expected


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": 10**400},
        {"seed": 10**400},
        {"logit_bias": [[1, 10**400]]},
        {"n_predict": -2},
        {"n_predict": 2**31},
        {"n": 5},
        {"n": 0},
        {"stream": 1},
        {"cache_prompt": "no"},
        {"stop": 5},
        {"stop": ["a", 1]},
        {"seed": "abc"},
        {"logit_bias": 5},
        {"logit_bias": [[1]]},
        {"logit_bias": [[1, True]]},
        {"logit_bias": [[1.5, 1]]},
        {"logit_bias": {"1": "much"}},
        {"dry_sequence_breakers": []},
        {"samplers": ["zzz"]},
        {"samplers": "kz"},
        {"min_keep": -1},
        {"reasoning_format": "deepseek-legacy"},
        {"stream_options": {"include_usage": 1}},
    ],
)
def test_wrong_types_and_values_are_refused_by_name(body: dict[str, Any]) -> None:
    (name,) = body
    with pytest.raises(RequestError) as caught:
        read(**body)
    assert name in str(caught.value) or "include_usage" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "body",
    [
        {"t_max_predict_ms": 100},
        {"n_indent": 2},
        {"adaptive_target": 0.5},
        {"post_sampling_probs": True, "n_probs": 2},
        {"backend_sampling": True},
        {"lora": [{"id": 0, "scale": 1.0}]},
        {"reasoning_budget_tokens": 0},
        {"grammar_lazy": True},
        {"echo": True},
        {"suffix": "end"},
        {"best_of": 2},
        {"samplers": ["adaptive_p"]},
        {"samplers": ["infill"]},
    ],
)
def test_what_would_change_the_answer_and_is_not_there_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        read(**body)


def test_the_same_fields_pass_where_they_change_nothing() -> None:
    harmless = {
        "t_max_predict_ms": -1,
        "n_indent": 0,
        "adaptive_target": -1.0,
        "post_sampling_probs": True,
        "lora": [],
        "reasoning_budget_tokens": -1,
        "echo": False,
        "best_of": 1,
        "suffix": "",
        "anything": {"else": 1},
    }
    assert read(**harmless) == read()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"n_probs": 3}, 3),
        ({"logprobs": 2}, 2),
        ({"logprobs": True}, 1),
        ({"logprobs": False}, 0),
        ({"n_probs": -1}, 0),
        ({"n_probs": 10**6}, len(VOCABULARY)),
    ],
)
def test_how_many_logprobs(body: dict[str, Any], expected: int) -> None:
    assert read(**body).num_top_logprobs == expected


def test_each_choice_has_its_seed() -> None:
    parameters = read(seed=4294967290, n=3)
    seeds = [parameters.request((1,), choice).sampling.seed for choice in range(3)]
    assert seeds == [4294967290, 4294967291, 4294967292]
    assert read(n=3).request((1,), 2).sampling.seed is None
