"""The scripted model is a pure function of its context, greedy and sampled."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.vocabulary import decode
from specproxy.testing import Language, SamplingParams, generate
from specproxy.testing.language import sample

LANGUAGE = Language()
CONTEXTS = st.lists(st.integers(0, len(LANGUAGE.vocabulary) - 1), min_size=1, max_size=12)


@given(CONTEXTS)
def test_distributions_are_sorted_and_sum_to_one(context: list[int]) -> None:
    distribution = LANGUAGE.distribution(context)
    probabilities = [probability for _, probability in distribution]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)
    assert len({token for token, _ in distribution}) == len(distribution)


@given(CONTEXTS, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7, 1.5]))
def test_generation_can_be_resumed_anywhere(
    context: list[int], seed: int, temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, seed=seed)
    whole = generate(LANGUAGE, context, max_tokens=12, sampling=params)
    for draw in range(len(whole)):
        distribution = LANGUAGE.distribution([*context, *whole[:draw]])
        assert sample(distribution, params, draw) == whole[draw]


def test_sampling_follows_the_probabilities() -> None:
    distribution = ((7, 0.7), (8, 0.2), (9, 0.1))
    params = [SamplingParams(1.0, seed, top_p=1.0, min_p=0.0) for seed in range(4000)]
    counts = Counter(sample(distribution, one, 0) for one in params)
    for token, probability in distribution:
        assert counts[token] / 4000 == pytest.approx(probability, abs=0.03)


def test_top_k_top_p_and_min_p_cut_the_tail() -> None:
    distribution = ((7, 0.6), (8, 0.3), (9, 0.1))
    for cut in ({"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.6}):
        params = [SamplingParams(2.0, seed, **cut) for seed in range(50)]  # type: ignore[arg-type]
        assert {sample(distribution, one, 0) for one in params} == {7}


def test_a_script_is_followed_to_the_letter() -> None:
    language = LANGUAGE.with_script(" the sea", "Hello 😀 world")
    prompt = language.vocabulary.tokenize(" the sea", add_special=True)
    for temperature in (0.0, 1.0):
        tokens = generate(language, prompt, sampling=SamplingParams(temperature))
        assert decode(language.vocabulary, tokens) == "Hello 😀 world"
        assert language.vocabulary.is_end(tokens[-1])


def test_characters_of_several_tokens_are_completed() -> None:
    vocabulary = LANGUAGE.vocabulary
    start = vocabulary.tokenize("😀")[:2]
    assert "\ufffd" not in decode(vocabulary, start + generate(LANGUAGE, start, max_tokens=2))


def test_text_has_odd_tokenisations_and_ends() -> None:
    vocabulary = LANGUAGE.vocabulary
    odd = ended = 0
    for seed in range(100):
        tokens = generate(LANGUAGE, [seed + 5], max_tokens=200)
        ended += vocabulary.is_end(tokens[-1])
        text = tokens[:-1] if vocabulary.is_end(tokens[-1]) else tokens
        odd += vocabulary.tokenize(decode(vocabulary, text)) != text
    assert ended > 20
    assert odd > 20


def test_thinking_answers_have_one_span() -> None:
    language = Language(thinks=True, mean_length=0)
    vocabulary = language.vocabulary
    for number in range(5):
        prompt = vocabulary.tokenize(f"{number}<|im_start|>assistant\n", parse_special=True)
        tokens = generate(language, prompt, max_tokens=200)
        assert tokens[0] == vocabulary.special("<think>")
        assert tokens.count(vocabulary.special("</think>")) == 1


def test_another_key_is_another_model_and_loops_repeat() -> None:
    assert generate(Language(key=1), [9]) != generate(Language(key=2), [9])
    looped = generate(Language(loops=True, mean_length=0, order=1), [9], max_tokens=600)
    assert looped[-100:] != looped[-200:-100] or looped[-50:] == looped[-100:-50]
    grams = Counter(zip(looped, looped[1:], looped[2:], strict=False))
    assert grams.most_common(1)[0][1] > 3
