"""The long memory comes back as it was, or not at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.positions import NUM_POSITIONS, Positions
from specproxy.core.record import MAX_KINDS, Record
from specproxy.core.tally import Tally
from specproxy.core.tree import Node

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
TORN = Node(1, 5, None, 0.4, ((2, 0.38), (3, 0.1)))


def filled() -> Record:
    record = Record()
    record.add(1000.0, "chat", Tally(num_answers=1, num_line=5, num_missed=2, decode_s=1.25))
    record.add(1000.0, None, Tally(seed_s=0.5))
    record.positions.count(0, confirmed=True)
    record.positions.count(99, confirmed=False)
    return record


def test_it_comes_back_as_it_was() -> None:
    saved = json.loads(json.dumps(filled().saved()))
    restored = Record.restored(saved, 1000.0)
    assert restored.kinds == {"chat": Tally(1, num_line=5, num_missed=2, decode_s=1.25)}
    assert restored.saved() == filled().saved()
    assert len(restored.positions.as_json()) == NUM_POSITIONS


def test_kinds_are_bounded() -> None:
    record = Record()
    for number in range(2 * MAX_KINDS):
        record.add(0.0, f"kind {number}", Tally(num_answers=1))
    assert len(record.kinds) == MAX_KINDS


@given(st.sampled_from(["kinds", "positions", "day"]), ODD)
def test_odd_content_is_refused_and_nothing_else_raised(key: str, odd: Any) -> None:
    saved = {**filled().saved(), key: odd}
    try:
        restored = Record.restored(saved, 1000.0)
    except ValueError:
        return
    json.dumps(restored.saved())


@given(st.sampled_from(["edges", "accepted", "decided", "ranks", "missed"]), ODD)
def test_an_odd_acceptance_model_is_refused_and_changes_nothing(key: str, odd: Any) -> None:
    model = AcceptanceModel()
    before = model.saved()
    try:
        model.restore({**before, key: odd})
    except ValueError:
        assert model.saved() == before
    assert 0.0 < model.accept(TORN) < 1.0


def test_a_restored_model_remembers_and_still_learns() -> None:
    model = AcceptanceModel()
    for _ in range(5000):
        model.learn(TORN, 2)
    warm = AcceptanceModel()
    warm.restore(json.loads(json.dumps(model.saved())))
    assert warm.accept(TORN) == pytest.approx(model.accept(TORN), abs=0.01)
    assert warm.alternative(TORN, 0) == pytest.approx(model.alternative(TORN, 0), abs=0.05)
    for _ in range(400):
        warm.learn(TORN, TORN.token)
        model.learn(TORN, TORN.token)
    assert warm.accept(TORN) > 0.5 > model.accept(TORN)


def test_positions_beyond_the_last_count_there() -> None:
    positions = Positions()
    positions.count(500, confirmed=True)
    assert positions.as_json()[-1] == [1, 1]
