"""Answers are counted while they run, and measured once."""

from specproxy.load import Load


def test_answers_are_counted_and_measured() -> None:
    load = Load(lambda: 0.0)
    with load.answer() as first, load.answer() as second:
        assert (load.num_answers, load.idle.is_set()) == (2, False)
        assert first.speculates
        assert second.speculates
        first.ended(21, 2.0, speculated=True)
        second.timed({"predicted_n": 21, "predicted_ms": 1000.0}, speculated=False)
    assert (load.num_answers, load.idle.is_set()) == (0, True)
    assert "10.0 with" in repr(load)
    assert "20.0 without" in repr(load)


def test_short_answers_and_missing_timings_say_nothing() -> None:
    load = Load(lambda: 0.0)
    with load.answer() as measured:
        measured.ended(3, 1.0, speculated=True)
        measured.timed({}, speculated=True)
        measured.timed({"predicted_n": None, "predicted_ms": "x"}, speculated=True)
        assert measured.tokens_per_s is None
