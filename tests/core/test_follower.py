"""The follower finds the target's ids in what llama-server's slots send of them."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from specproxy.core.follower import Follower
from specproxy.core.vocabulary import decode
from specproxy.testing import ToyVocabulary
from specproxy.testing.parameters import CompletionParams
from specproxy.testing.slot import Partial, Slot, Task
from specproxy.testing.vocabulary import FIRST_BYTE, WORDS

VOCABULARY = ToyVocabulary()
FIRST_WORD = FIRST_BYTE + 256
WORD_IDS = range(FIRST_WORD, FIRST_WORD + len(WORDS))
HOLDING = (" lighthouse sea\0", " Pantomime of\0")
"""Stop strings that hold words back and never occur whole."""


def spelled(text: str) -> tuple[int, ...]:
    """`text` byte by byte."""
    return tuple(FIRST_BYTE + value for value in text.encode())


UNITS = [
    *((token,) for token in WORD_IDS),
    *(spelled(text) for text in ("ö", "日", "😀", "🚀", "x", " ", "the")),
    *(tuple(VOCABULARY.tokenize(text)) for text in (" Pan", "tom", " light", "house")),
]
TEXTS = st.lists(st.sampled_from(UNITS), max_size=30).map(
    lambda units: [token for unit in units for token in unit]
)
TORN = [(0,), (1,), *UNITS[-11:], *((VOCABULARY.tokenize(text)[0],) for text in (" light", " sea"))]
"""Control tokens, cut characters and words that are held back: often side by side."""
TORN_TEXTS = st.lists(st.sampled_from(TORN), max_size=30).map(
    lambda units: [token for unit in units for token in unit]
)
STOPS = st.sampled_from([(), HOLDING])


def streamed(tokens: Sequence[int], stop: Sequence[str] = ()) -> list[Partial]:
    """The events that a slot of llama-server makes of `tokens`."""
    events: list[Partial] = []
    slot = Slot(0, 4096)
    params = CompletionParams(stream=True, stop=tuple(stop))
    slot.launch(Task(1, [], params, 0, lambda event: events.append(event)))  # type: ignore[arg-type]
    for token in tokens:
        if not slot.take(token, VOCABULARY.piece(token), is_end=False, probs=None):
            break
    return events


def text_of(event: Partial) -> str:
    return event.text.decode("utf-8", "replace")


@given(tokens=TORN_TEXTS, stop=STOPS)
def test_ids_are_found_whatever_is_held_back(tokens: list[int], stop: Sequence[str]) -> None:
    follower = Follower(VOCABULARY)
    found: list[int] = []
    for event in streamed(tokens, stop):
        found += follower.follow(text_of(event), [event.token], ())
    assert found == tokens[: len(found)]
    assert len(tokens) - len(found) < 4  # the pieces of a character that is not whole yet


@given(tokens=TEXTS, stop=STOPS)
def test_text_and_a_right_draft_give_the_ids(tokens: list[int], stop: Sequence[str]) -> None:
    follower = Follower(VOCABULARY)
    found: list[int] = []
    for event in streamed(tokens, stop):
        found += follower.follow(text_of(event), None, tokens[len(found) :][:20])
    assert found == tokens[: len(found)]
    assert follower.num_guessed == 0


@given(tokens=TEXTS, stop=STOPS, expected=st.lists(st.integers(-2, 400), max_size=5))
@example(tokens=[*spelled("ö")], stop=(), expected=[*spelled("ö")][:1])
def test_text_alone_gives_ids_of_the_same_text(
    tokens: list[int], stop: Sequence[str], expected: list[int]
) -> None:
    follower = Follower(VOCABULARY)
    events = streamed(tokens, stop)
    found = [t for event in events for t in follower.follow(text_of(event), None, expected)]
    assert decode(VOCABULARY, found) == "".join(map(text_of, events))


@given(
    events=st.lists(
        st.tuples(st.text(max_size=5), st.none() | st.lists(st.integers(-5, 500), max_size=3)),
        max_size=8,
    ),
    expected=st.lists(st.integers(-5, 500), max_size=4),
)
def test_nonsense_never_raises_and_named_ids_are_kept(
    events: list[tuple[str, list[int] | None]], expected: list[int]
) -> None:
    follower = Follower(VOCABULARY)
    for text, tokens in events:
        found = follower.follow(text, tokens, expected)
        if tokens:
            assert found[-len(tokens) :] == tokens


def test_a_held_word_before_a_cut_character() -> None:
    held = VOCABULARY.tokenize(" light")
    tokens = [*held, *spelled("😀")]
    follower = Follower(VOCABULARY)
    assert follower.follow("", held, ()) == held
    assert follower.follow(" light😀", tokens[-1:], ()) == tokens[len(held) :]


def test_the_draft_decides_between_tokenisations() -> None:
    split = [VOCABULARY.tokenize(" Pan")[0], VOCABULARY.tokenize("tom")[0]]
    whole = VOCABULARY.tokenize(" Pantom")
    assert Follower(VOCABULARY).follow(" Pantom", None, split) == whole  # one token's text
    assert Follower(VOCABULARY).follow(" Pantom the", None, split) == [
        *split,
        *VOCABULARY.tokenize(" the"),
    ]


def test_an_odd_text_is_guessed_and_counted() -> None:
    follower = Follower(VOCABULARY)
    assert follower.follow(" the sea", None, ()) == VOCABULARY.tokenize(" the sea")
    assert follower.num_guessed == 1
    assert follower.follow("", None, ()) == []
