"""The real model's tokens."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from specproxy.core.vocabulary import Vocabulary, decode
from specproxy.llama.vocabulary import ModelVocabulary

pytestmark = pytest.mark.real
TEXT = "Grüße, 世界! 🦙 runs:\n\n\tdef f(x): return x**2  # 1987"


def test_it_is_a_vocabulary(vocabulary: ModelVocabulary) -> None:
    typed: Vocabulary = vocabulary
    assert len(typed) == 49152
    assert typed.name == "SmolLM2-135M-Instruct.Q4_1"


def test_text_survives_the_round_trip(vocabulary: ModelVocabulary) -> None:
    tokens = vocabulary.tokenize(TEXT)
    assert decode(vocabulary, tokens) == TEXT
    assert any(not vocabulary.piece(t).isascii() for t in tokens)


def test_specials_are_silent_but_have_literals(vocabulary: ModelVocabulary) -> None:
    (end,) = vocabulary.tokenize("<|im_end|>", parse_special=True)
    assert vocabulary.piece(end) == b""
    assert vocabulary.special_text(end) == "<|im_end|>"
    assert vocabulary.is_end(end)
    assert vocabulary.token_of(b"<|im_end|>") is None
    assert end not in vocabulary.tokenize("<|im_end|>")
    (village,) = vocabulary.tokenize(" village")
    assert vocabulary.special_text(village) is None
    assert not vocabulary.is_end(village)


def test_every_ordinary_piece_leads_back_to_its_lowest_id(vocabulary: ModelVocabulary) -> None:
    for token in range(len(vocabulary)):
        piece = vocabulary.piece(token)
        if not piece:
            continue
        found = vocabulary.token_of(piece)
        assert found is not None
        assert found <= token
        assert vocabulary.piece(found) == piece


@pytest.mark.parametrize("token", [-1, 49152])
def test_ids_outside_are_index_errors(vocabulary: ModelVocabulary, token: int) -> None:
    with pytest.raises(IndexError):
        vocabulary.piece(token)
    assert vocabulary.special_text(token) is None
    assert not vocabulary.is_end(token)


def test_odd_texts(vocabulary: ModelVocabulary) -> None:
    assert vocabulary.tokenize("") == []
    assert decode(vocabulary, vocabulary.tokenize("a\0b")) == "a\0b"
    assert decode(vocabulary, vocabulary.tokenize("a\ud800b")) == "a?b"


def test_threads_may_share_it(vocabulary: ModelVocabulary) -> None:
    texts = [f"{TEXT} {i}" * 20 for i in range(16)]
    alone = [vocabulary.tokenize(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(vocabulary.tokenize, texts)) == alone
