"""The acceptance model starts sensibly and learns what the target says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.acceptance import MAX_RESTORED, AcceptanceModel
from specproxy.core.tree import Node

TORN = Node(1, 5, None, 0.4, ((2, 0.38), (3, 0.1), (4, 0.05)))
SURE = Node(1, 5, None, 0.98, ((2, 0.01), (3, 0.005), (4, 0.001)))
BARE = Node(1, 5, None, 0.9)
CERTAIN = Node(1, 5, None, 0.999, ((2, 0.001), (3, 0.0), (4, 0.0)))


def test_a_wide_margin_is_trusted_more_than_a_thin_one() -> None:
    model = AcceptanceModel()
    assert model.accept(SURE) > model.accept(TORN)
    assert model.alternative(TORN, 0) > model.alternative(SURE, 0)
    assert model.alternative(TORN, 0) > model.alternative(TORN, 1) > model.alternative(TORN, 2) > 0


def test_it_learns_by_margin() -> None:
    model = AcceptanceModel()
    sure, torn = model.accept(SURE), model.accept(TORN)
    for _ in range(50):
        model.learn(TORN, 3)
    assert model.accept(TORN) < 0.2 < torn
    assert model.accept(SURE) == sure
    assert model.alternative(TORN, 1) > model.alternative(TORN, 0)
    for _ in range(500):
        model.learn(TORN, TORN.token)
    assert model.accept(TORN) > 0.8


def test_reach_is_the_product_of_the_way() -> None:
    model = AcceptanceModel()
    assert model.reach([]) == 1.0
    expected = model.accept(TORN) * model.accept(SURE)
    assert model.reach([TORN, SURE]) == pytest.approx(expected)


@given(st.lists(st.tuples(st.sampled_from([TORN, SURE, BARE]), st.integers(0, 6)), max_size=60))
def test_it_stays_a_probability(said: list[tuple[Node, int]]) -> None:
    model = AcceptanceModel()
    for node, token in said:
        model.learn(node, token)
        for other in (TORN, SURE, BARE):
            others = [model.alternative(other, rank) for rank in range(5)]
            assert 0.0 < model.accept(other) < 1.0
            assert all(share >= 0.0 for share in others)
            assert model.accept(other) + sum(others) <= 1.0 + 1e-9


@pytest.mark.parametrize("num_tokens", [0, 400, 3200])
@pytest.mark.parametrize("said", [CERTAIN.token, 2])
def test_what_is_never_otherwise_survives_any_number_of_restarts(
    num_tokens: int, said: int
) -> None:
    model = AcceptanceModel()
    for _ in range(12):
        for _ in range(num_tokens):
            model.learn(CERTAIN, said)
        saved = json.loads(json.dumps(model.saved()))
        model = AcceptanceModel()
        model.restore(saved)
        assert 0.0 < model.accept(CERTAIN) < 1.0
        assert model.alternative(CERTAIN, 0) < 1.0 - model.accept(CERTAIN)
    if num_tokens:
        assert (model.accept(CERTAIN) > 0.99) is (said == CERTAIN.token)


def test_an_earlier_life_weighs_no_more_than_it_may() -> None:
    model = AcceptanceModel()
    for _ in range(3000):
        model.learn(TORN, TORN.token)
    restored = AcceptanceModel()
    restored.restore(model.saved())
    assert restored.accept(TORN) == pytest.approx(model.accept(TORN), abs=0.01)
    for _ in range(int(MAX_RESTORED)):
        restored.learn(TORN, 2)
    assert restored.accept(TORN) == pytest.approx(0.5, abs=0.01)
