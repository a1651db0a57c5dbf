"""The greedy choice against sorting and a softmax in double precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.draft.choice import Chooser


@given(
    st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=60),
    st.integers(0, 5),
)
def test_it_equals_sorting(values: list[float], num_alternatives: int) -> None:
    logits = np.array(values, np.float32)
    kept = logits.copy()
    choice = Chooser(64, num_alternatives).choose(logits)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    expected = np.sort(weights / weights.sum())[::-1]
    found = [choice.probability, *(p for _, p in choice.alternatives)]
    assert choice.token == int(np.argmax(logits))
    assert np.allclose(found, expected[: len(found)], rtol=1e-4, atol=1e-7)
    assert len(choice.alternatives) == min(num_alternatives, len(values) - 1)
    ids = [choice.token, *(token for token, _ in choice.alternatives)]
    assert len(set(ids)) == len(ids)
    assert np.array_equal(logits, kept)


def test_ties_go_to_the_lowest_id() -> None:
    choice = Chooser(4, 2).choose(np.array([1, 3, 3, 3], np.float32))
    assert (choice.token, [t for t, _ in choice.alternatives]) == (1, [2, 3])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonsense_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match="largest"):
        Chooser(3, 1).choose(np.array([0, value, 1], np.float32))
