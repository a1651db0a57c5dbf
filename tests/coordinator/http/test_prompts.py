"""Forms of prompts."""

from typing import Any

import pytest

from specproxy.coordinator.http.prompts import read_prompts
from specproxy.errors import RequestError
from specproxy.testing import ToyVocabulary

VOCABULARY = ToyVocabulary()
SEA = tuple(VOCABULARY.tokenize(" sea"))
BOS = VOCABULARY.bos


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (" sea", [(BOS, *SEA)]),
        ([7, 8], [(7, 8)]),
        ([" sea", 7, " sea"], [(BOS, *SEA, 7, *SEA)]),
        ([" sea", " sea"], [(BOS, *SEA), (BOS, *SEA)]),
        ([[7, 8], " sea"], [(7, 8), (BOS, *SEA)]),
        ({"prompt_string": " sea"}, [(BOS, *SEA)]),
        ("<|im_end|>", [(BOS, VOCABULARY.end_of_turn)]),
    ],
)
def test_forms(prompt: Any, expected: list[tuple[int, ...]]) -> None:
    assert read_prompts(prompt, VOCABULARY) == expected


@pytest.mark.parametrize(
    "prompt",
    [None, [], 5, True, [1, 10**6], [-1], [1.5], [[1], {}], {"multimodal_data": ["x"]}, [1, [2]]],
)
def test_other_forms_are_refused(prompt: Any) -> None:
    with pytest.raises(RequestError):
        read_prompts(prompt, VOCABULARY)
