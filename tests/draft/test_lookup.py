"""Guesses for the draft: what followed the same tokens before, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.draft.lookup import KEY_TOKENS, MAX_GUESSES, Lookup

texts = st.lists(st.integers(0, 3), max_size=40)


def test_what_came_before_is_guessed_again() -> None:
    lookup = Lookup()
    lookup.learn([1, 2, 3, 4, 5, 6, 1, 2, 3])
    assert lookup.guess([9, 1, 2, 3], 5) == [4, 5][:MAX_GUESSES]
    assert lookup.guess([9, 1, 2, 3], 1) == [4]
    assert lookup.guess([9, 1, 2, 3], 0) == []
    assert lookup.guess([2, 3], 5) == []
    assert lookup.guess([7, 8, 9], 5) == []


def test_the_latest_successor_wins() -> None:
    lookup = Lookup()
    lookup.learn([1, 2, 3, 4, 1, 2, 3, 7])
    assert lookup.guess([1, 2, 3], 1) == [7]


def test_what_was_rolled_back_is_remembered_and_forgotten_on_demand() -> None:
    lookup = Lookup()
    lookup.learn([1, 2, 3, 4, 5])
    lookup.cut(3)
    lookup.learn([1, 2, 3, 6])
    assert lookup.guess([2, 3, 4], 1) == [5]
    assert lookup.guess([1, 2, 3], 1) == [6]
    lookup.forget()
    assert len(lookup) == 0


@given(st.lists(st.tuples(texts, st.integers(0, 40)), max_size=6))
def test_step_by_step_it_knows_every_key_of_the_last_sequence(
    steps: list[tuple[list[int], int]],
) -> None:
    lookup = Lookup()
    sequence: list[int] = []
    for more, num_kept in steps:
        del sequence[num_kept:]
        lookup.cut(len(sequence))
        sequence += more
        lookup.learn(sequence)
    for end in range(KEY_TOKENS, len(sequence)):
        assert lookup.guess(sequence[end - KEY_TOKENS : end], 1)
