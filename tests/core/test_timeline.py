"""Periods come and go; a clock that is put back does no harm."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.tally import Tally
from specproxy.core.timeline import Timeline


@given(st.lists(st.floats(0, 5000), max_size=60))
def test_it_is_bounded_in_order_and_loses_nothing_recent(times: list[float]) -> None:
    timeline = Timeline(period_s=10.0, num_periods=6)
    newest = 0.0
    for now_s in times:
        newest = max(newest, now_s)
        timeline.add(now_s, Tally(num_tokens=1))
        points = timeline.points(newest)
        assert len(points) <= 6
        assert [start for start, _ in points] == sorted({start for start, _ in points})
        assert timeline.recent(newest, 0.0).num_tokens >= 1
        assert timeline.recent(newest, 1e9).num_tokens <= len(times)


def test_what_is_saved_is_put_back_unless_it_is_too_old() -> None:
    timeline = Timeline(period_s=10.0, num_periods=6)
    for now_s in (5.0, 25.0, 55.0):
        timeline.add(now_s, Tally(num_tokens=1, decode_s=0.5))
    later = Timeline(period_s=10.0, num_periods=6)
    later.restore(timeline.saved(), 75.0)
    assert [start for start, _ in later.points(75.0)] == [20.0, 50.0]
    assert later.recent(75.0, 1e9) == Tally(num_tokens=2, decode_s=1.0)
    later.restore(timeline.saved(), 15.0)  # written by a clock that was ahead
    assert [start for start, _ in later.points(15.0)] == [0.0]
