"""Which numbers of rows are known, and whether that matters."""

from specproxy.coordinator.shapes import WARM_ROWS, Shapes
from specproxy.core.cost import PassCost


def slow_link() -> tuple[Shapes, PassCost]:
    """A new shape costs 0.6 s there, a plain pass 0.2 s."""
    shapes, cost = Shapes(), PassCost()
    for rows in (1, 8):
        shapes.observe(rows, rows, 0.8, cost)
        shapes.observe(rows, rows, 0.2, cost)
        shapes.measure(0.6, cost)
    return shapes, cost


def test_a_first_pass_is_not_for_the_cost_model_and_a_second_is() -> None:
    shapes, cost = Shapes(), PassCost()
    shapes.observe(8, 8, 5.0, cost)
    assert cost.num_observed == 0
    shapes.observe(8, 8, 0.2, cost)
    assert cost.num_observed == 1
    shapes.observe(8, 0, 0.2, cost)
    shapes.observe(8, 8, 0.2, None)
    assert cost.num_observed == 1


def test_rows_and_outputs_are_known_apart() -> None:
    shapes, cost = slow_link()
    assert shapes.matter
    assert shapes.new_s(8, 8) == shapes.new_s(8, 1) == shapes.new_s(8) == 0
    assert 0.5 < shapes.new_s(9, 8) < 0.7
    assert 0 < shapes.new_s(8, 5) < shapes.new_s(9, 8) < shapes.new_s(9, 5)
    shapes.observe(8, 5, 0.4, cost)
    assert shapes.new_s(8, 5) == 0
    assert shapes.new_s(5, 5) > 0
    assert shapes.known_up_to(7) == [1]
    assert shapes.known_up_to(100) == [8, 1]


def test_on_a_fast_link_nothing_is_new_and_nothing_is_warmed() -> None:
    shapes, cost = Shapes(), PassCost()
    for rows in (1, 8):
        shapes.observe(rows, rows, 0.2, cost)
        shapes.observe(rows, rows, 0.2, cost)
        shapes.measure(0.01, cost)
    assert not shapes.matter
    assert shapes.new_s(5, 5) == 0
    assert shapes.next_to_warm(512) is None
    always = Shapes(assume_matter=True)
    for _ in range(5):
        always.measure(0.0, cost)
    assert always.matter
    assert always.next_to_warm(512) is not None


def test_every_size_is_warmed_once_likely_ones_first() -> None:
    shapes, cost = slow_link()
    order = []
    while (rows := shapes.next_to_warm(40)) is not None:
        order.append(rows)
        if rows % 2:
            shapes.observe(rows, rows, 0.8, cost)
    assert sorted(order) == [rows for rows in range(1, 41) if rows not in (1, 8)]
    assert set(order[:4]) < set(range(2, 17))
    assert WARM_ROWS >= 40


def test_what_real_passes_cost_is_measured_too() -> None:
    shapes, cost = Shapes(), PassCost()
    for _ in range(20):
        shapes.observe(1, 1, 0.2, cost)
    shapes.observe(9, 9, 1.0, cost)
    assert 0.5 < shapes.extra_s < 0.9
