"""How a step's rows are shared."""

from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.pace import ReadPace, share_rows


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.integers(1, 256))
def test_everyone_gets_something_and_nobody_too_much(pending: list[int], chunk: int) -> None:
    shares = share_rows(pending, chunk)
    assert all(1 <= share <= wanted for share, wanted in zip(shares, pending, strict=True))
    assert sum(shares) <= chunk + len(pending)


@given(st.lists(st.integers(2, 500), min_size=1, max_size=8), st.integers(16, 256))
def test_readers_use_the_whole_chunk_fairly(pending: list[int], chunk: int) -> None:
    shares = share_rows(pending, chunk)
    assert sum(shares) == min(chunk, sum(pending))
    hungry = [s for s, wanted in zip(shares, pending, strict=True) if s < wanted]
    assert not hungry or max(hungry) - min(hungry) <= 1
    assert not hungry or max(shares) <= max(hungry)


def test_the_chunk_follows_the_speed() -> None:
    pace = ReadPace(256)
    assert 1 <= pace.chunk(shared=False) <= 256
    pace.observe(64, 64 * 0.002)
    alone, shared = pace.chunk(shared=False), pace.chunk(shared=True)
    assert shared < alone <= 256
    for _ in range(30):
        pace.observe(64, 64 * 0.000_01)
    assert pace.chunk(shared=True) == 256
    for _ in range(60):
        pace.observe(64, 64 * 1.0)
    assert 1 <= pace.chunk(shared=False) <= 8


def test_single_rows_say_nothing_about_reading() -> None:
    pace = ReadPace(256)
    before = pace.chunk(shared=False)
    pace.observe(1, 5.0)
    assert pace.chunk(shared=False) == before
