"""Characters and stop strings across tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.coordinator.http.text import AnswerText, num_complete


def run(pieces: Sequence[bytes], stops: Sequence[str]) -> tuple[list[bytes | None], AnswerText]:
    """Token by token until a stop string is found."""
    text = AnswerText(stops)
    shown: list[bytes | None] = []
    for piece in pieces:
        shown.append(text.take(piece, is_end=False))
        if text.stopping_word is not None:
            break
    return shown, text


def test_no_half_character_is_shown() -> None:
    shown, _ = run([b"a", b"\xf0\x9f", b"\x9a\x80b"], [])
    assert shown == [b"a", None, "🚀b".encode()]


def test_a_stop_string_across_tokens_is_held_back_and_cut_off() -> None:
    shown, text = run([b"one ", b"tw", b"o th", b"ree"], ["two"])
    assert shown == [b"one ", b"", b""]
    assert bytes(text.data) == b"one "
    assert text.stopping_word == "two"


def test_what_turns_out_to_be_no_stop_string_comes_out() -> None:
    shown, text = run([b"t", b"w", b"ig"], ["two"])
    assert shown == [b"", b"", b"twig"]
    assert text.stopping_word is None


def test_the_earliest_of_several_stop_strings_counts() -> None:
    _, text = run([b"a-b+c"], ["+", "-"])
    assert (bytes(text.data), text.stopping_word) == (b"a", "-")


def test_the_end_lets_out_what_was_held() -> None:
    text = AnswerText(["END"])
    assert text.take(b"the E", is_end=False) == b""
    assert text.take(b"", is_end=True) == b"the E"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"abc", 3),
        ("é".encode(), 2),
        ("é".encode()[:1], 0),
        (b"x" + "日".encode()[:2], 1),
        ("🚀".encode()[:3], 0),
        (b"\x80\x80", 2),
        (b"\xff", 1),
    ],
)
def test_a_cut_off_character_is_told_from_a_broken_one(data: bytes, expected: int) -> None:
    assert num_complete(data) == expected


@given(
    st.lists(st.text(alphabet="ab🚀é", min_size=1, max_size=4), max_size=8),
    st.lists(st.text(alphabet="ab🚀", min_size=1, max_size=3), max_size=2),
)
def test_the_text_ends_at_the_first_stop_string_and_streams_are_its_beginning(
    words: list[str], stops: list[str]
) -> None:
    whole = "".join(words).encode()
    pieces = [bytes([byte]) for byte in whole]
    shown, text = run(pieces, stops)
    cuts = [at for word in stops if (at := whole.find(word.encode())) >= 0]
    streamed = b"".join(part for part in shown if part)
    assert text.stopping_word in stops if cuts else text.stopping_word is None
    assert bytes(text.data).startswith(streamed)
    assert all(word.encode() not in text.data for word in stops)
    assert whole.startswith(text.data)
    streamed.decode()
