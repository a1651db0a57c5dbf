"""How much two sequences share at their beginning."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.prefix import common_prefix


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40))
def test_common_prefix_equals_counting(left: list[int], right: list[int]) -> None:
    counted = 0
    while counted < min(len(left), len(right)) and left[counted] == right[counted]:
        counted += 1
    assert common_prefix(left, right) == counted


def test_texts_too() -> None:
    assert common_prefix("lighthouse", "lightning") == 5
    assert common_prefix("", "a") == 0
