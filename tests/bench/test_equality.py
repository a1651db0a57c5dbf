"""Where an answer leaves the target's own, and whether that is a near-tie."""

import pytest

from specproxy.bench.equality import Candidate, Departure, Step, aligned, departure

PIECES = {0: b"", 1: b" the", 2: b" sea", 3: b" sun", 4: b" there", 5: b" re", 6: b"\xf0\x9f"}


def candidate(token: int, logprob: float = -0.1) -> Candidate:
    return Candidate(token, PIECES[token], logprob)


def step(taken: int, other: int | None = None, gap: float = 1.0) -> Step:
    others = () if other is None else (candidate(other, -0.1 - gap),)
    return Step(candidate(taken), others)


def test_the_same_text_never_departs() -> None:
    assert departure([step(1), step(2)], b" the sea") is None
    assert departure([], b"") is None


def test_a_close_second_is_a_tie() -> None:
    found = departure([step(1, 4), step(2, 3, gap=0.01), step(1)], b" the sun and more")
    assert found is not None
    assert (found.index, found.offset, found.said) == (1, 4, candidate(3, -0.1 - 0.01))
    assert found.gap == pytest.approx(0.01)
    assert found.is_tie(0.05)
    assert not found.is_tie(0.005)


def test_a_distant_second_is_none() -> None:
    found = departure([step(1), step(2, 3, gap=2.0)], b" the sun")
    assert found is not None
    assert not found.is_tie(0.05)


def test_a_token_that_was_not_considered_is_never_a_tie() -> None:
    assert departure([step(1), step(2, 3, gap=0.0)], b" the moon") == Departure(1, 4)
    found = departure([step(1), step(2, 3, gap=0.0)], b" the moon")
    assert found is not None
    assert not found.is_tie(100.0)


def test_the_departure_may_lie_before_the_first_other_byte() -> None:
    found = departure([step(1, 4, gap=0.02), step(5)], b" there is")
    assert found is not None
    assert (found.index, found.offset) == (0, 0)
    assert found.said == candidate(4, -0.1 - 0.02)


def test_an_answer_that_ended_early_departs_at_the_end_of_turn() -> None:
    found = departure([step(1), step(2, 0, gap=0.01)], b" the")
    assert found is not None
    assert found.said is not None
    assert found.said.piece == b""
    assert found.is_tie(0.05)
    assert departure([step(1), step(2, 3)], b" the") == Departure(1, 4)


def test_an_answer_that_went_on_departs_where_the_target_ended() -> None:
    found = departure([step(1), step(0, 2, gap=0.03)], b" the sea")
    assert found is not None
    assert (found.index, found.said) == (1, candidate(2, -0.1 - 0.03))
    assert departure([step(1), step(0)], b" the sea") == Departure(1, 4)


def test_an_answer_that_continues_beyond_the_replay_departs() -> None:
    assert departure([step(1)], b" the sea") is not None
    assert departure([], b"x") == Departure(0, 0)


def test_a_cut_off_character_at_the_end_is_not_a_departure() -> None:
    assert departure([step(1), step(6)], b" the") is None
    assert departure([step(6), step(1)], b" the") is not None


def test_ids_that_the_server_does_not_show_are_found() -> None:
    shown = [step(1, 2), step(6, 3), step(0)]
    steps = aligned(shown, [1, 40, 41, 6, 0])
    assert [one.tokens for one in steps] == [(1,), (40, 41, 6), (0,)]
    assert [len(one.others) for one in steps] == [1, 0, 0]
    assert [one.taken for one in steps] == [one.taken for one in shown]


def test_what_does_not_fit_together_is_left_out() -> None:
    assert aligned([step(1), step(2)], [1, 9]) == [Step(candidate(1), (), (1,))]
    assert aligned([], [1]) == []
