"""What of a long context is read: never too much, and not anew with every token."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.draft.reach import Reach, without


def test_short_contexts_are_read_whole() -> None:
    reach = Reach(8192)
    assert reach.num_left_out(1) == 0
    assert reach.num_left_out(7680) == 0
    assert reach.num_left_out(7681) == 2048
    assert not reach.is_narrow


@given(st.integers(256, 20_000), st.integers(1, 100_000), st.integers(0, 6))
def test_what_is_left_has_room_to_grow(limit: int, num_tokens: int, num_narrowed: int) -> None:
    reach = Reach(limit)
    for _ in range(num_narrowed):
        reach.narrow()
    num_left_out = reach.num_left_out(num_tokens)
    num_left = num_tokens - num_left_out
    assert 0 < num_left < limit
    if num_left_out:
        assert reach.suits(num_left)


def test_a_growing_context_is_cut_seldom() -> None:
    reach = Reach(8192)
    cuts = {reach.num_left_out(num_tokens) for num_tokens in range(7_000, 17_000, 10)}
    assert len(cuts) <= 7


def test_shares_of_many_contexts() -> None:
    reach = Reach(8192)
    reach.narrow()
    assert reach.is_narrow
    assert 4500 - reach.num_left_out(4500) < 4096
    reach.widen()
    assert reach.num_left_out(4500) == 0


def test_the_first_token_stays() -> None:
    assert without([1, 2, 3, 4, 5], 2) == [1, 4, 5]
    assert without([1, 2, 3], 0) == [1, 2, 3]
