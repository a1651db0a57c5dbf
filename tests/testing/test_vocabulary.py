"""The toy vocabulary has a large one's traps, and decoding undoes tokenising."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.vocabulary import Vocabulary, decode
from specproxy.testing import ToyVocabulary
from specproxy.testing.vocabulary import END_THINK, THINK, WORDS

VOCABULARY: Vocabulary = ToyVocabulary()


def without_control(text: str) -> bool:
    return THINK not in text and END_THINK not in text


@given(st.text() | st.lists(st.sampled_from(WORDS)).map("".join))
def test_decoding_undoes_tokenising(text: str) -> None:
    assert decode(VOCABULARY, VOCABULARY.tokenize(text)) == text


def test_the_longest_token_wins() -> None:
    (whole,) = VOCABULARY.tokenize(" Pantom")
    pan, tom = VOCABULARY.token_of(b" Pan"), VOCABULARY.token_of(b"tom")
    assert pan is not None
    assert tom is not None
    assert VOCABULARY.piece(pan) + VOCABULARY.piece(tom) == VOCABULARY.piece(whole)


def test_emoji_are_several_byte_tokens() -> None:
    tokens = VOCABULARY.tokenize("😀")
    assert [VOCABULARY.piece(token) for token in tokens] == [b"\xf0", b"\x9f", b"\x98", b"\x80"]


def test_control_tokens_are_parsed_on_request_only() -> None:
    parsed = VOCABULARY.tokenize("<|im_end|>", parse_special=True)
    assert len(parsed) == 1
    assert VOCABULARY.is_end(parsed[0])
    assert VOCABULARY.piece(parsed[0]) == b""
    assert VOCABULARY.special_text(parsed[0]) == "<|im_end|>"
    assert len(VOCABULARY.tokenize("<|im_end|>")) > 1
    assert len(VOCABULARY.tokenize("<think>")) == 1


def test_bos_comes_on_request() -> None:
    assert VOCABULARY.tokenize(" sea", add_special=True)[1:] == VOCABULARY.tokenize(" sea")
    plain = ToyVocabulary(add_bos=False)
    assert plain.tokenize(" sea", add_special=True) == plain.tokenize(" sea")


@pytest.mark.parametrize("token", [-1, len(VOCABULARY)])
def test_foreign_ids_are_refused(token: int) -> None:
    with pytest.raises(IndexError):
        VOCABULARY.piece(token)
