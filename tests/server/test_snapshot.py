"""Texts of tokens for the page: whole characters, neighbours together."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.origins import Origin
from specproxy.server.snapshot import spans
from specproxy.testing import ToyVocabulary

VOCABULARY = ToyVocabulary()


def test_neighbours_of_one_origin_are_together() -> None:
    tokens = VOCABULARY.tokenize(" the sea is deep")
    origins = [Origin.LINE, Origin.LINE, Origin.MISSED, Origin.LINE]
    found = spans(zip(tokens, origins, strict=True), VOCABULARY)
    assert found == [(Origin.LINE, " the sea"), (Origin.MISSED, " is"), (Origin.LINE, " deep")]


@given(st.text(max_size=20), st.data())
def test_nothing_of_the_text_is_lost_however_it_is_cut(text: str, data: st.DataObject) -> None:
    tokens = VOCABULARY._longest_match(text.encode("utf-8", "ignore"))
    origins = [data.draw(st.sampled_from(Origin)) for _ in tokens]
    found = spans(zip(tokens, origins, strict=True), VOCABULARY)
    assert "".join(said for _, said in found) == text.encode("utf-8", "ignore").decode()
    assert all(said for _, said in found)


def test_ids_that_are_none_have_no_text() -> None:
    assert spans([(-1, None), (10**9, None), (0, None)], VOCABULARY) == []
