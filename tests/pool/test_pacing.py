"""When bytes arrive on an emulated link."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.pool.pacing import LinkSpeed, Pacing


def pacing(speed: LinkSpeed) -> Pacing:
    return Pacing(speed, random.Random(1))


def test_without_more_it_is_half_a_round_trip() -> None:
    link = pacing(LinkSpeed(80.0))
    assert link.arrival_s(10.0, 1 << 20) == pytest.approx(10.04)
    assert link.arrival_s(10.0, 1) == pytest.approx(10.04)


def test_bytes_enter_one_after_the_other_at_the_rate() -> None:
    link = pacing(LinkSpeed(20.0, mbit_s=8.0))  # a megabyte per second
    assert link.arrival_s(0.0, 500_000) == pytest.approx(0.51)
    assert link.arrival_s(0.1, 250_000) == pytest.approx(0.76)
    assert link.arrival_s(5.0, 1000) == pytest.approx(5.011)  # it was idle


def test_jitter_makes_later_and_differs() -> None:
    link = pacing(LinkSpeed(10.0, jitter_ms=5.0))
    delays = [link.arrival_s(float(at), 1) - at for at in range(200)]
    assert min(delays) >= 0.005
    assert max(delays) <= 0.0101
    assert max(delays) - min(delays) > 0.004


def test_a_shorter_round_trip_lets_nothing_overtake() -> None:
    speed = LinkSpeed(100.0)
    link = pacing(speed)
    first = link.arrival_s(0.0, 1)
    speed.rtt_ms = 0.0
    assert link.arrival_s(0.01, 1) == first
    assert link.arrival_s(1.0, 1) == 1.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1 << 20)), max_size=40),
    st.floats(0, 500),
    st.floats(0, 50),
    st.one_of(st.none(), st.floats(0.1, 1000)),
)
def test_order_and_least_delay(
    chunks: list[tuple[float, int]], rtt_ms: float, jitter_ms: float, mbit_s: float | None
) -> None:
    link = pacing(LinkSpeed(rtt_ms, jitter_ms, mbit_s))
    now_s, last_s = 0.0, 0.0
    for pause_s, num_bytes in chunks:
        now_s += pause_s
        arrival_s = link.arrival_s(now_s, num_bytes)
        assert arrival_s >= last_s
        assert arrival_s >= now_s + rtt_ms / 2000 - 1e-9
        if mbit_s is not None:
            assert arrival_s - now_s >= num_bytes * 8e-6 / mbit_s - 1e-9
        last_s = arrival_s
