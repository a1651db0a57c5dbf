"""Rates are totals over totals, and undefined where nothing was measured."""

from collections.abc import Callable

import pytest

from specproxy.bench.stats import Answer, decoding, ratio, speed, summarise, throughput

MakeAnswer = Callable[..., Answer]


def test_decoding_starts_after_the_first_token(make_answer: MakeAnswer) -> None:
    one = make_answer(num_tokens=11, ttft_s=1.0, total_s=3.0, server_s=2.5)
    summary = summarise([one])
    assert summary.tokens_per_s == pytest.approx(10 / 2.0)
    assert summary.tokens_per_s_whole == pytest.approx(11 / 3.0)
    assert summary.tokens_per_s_server == pytest.approx(10 / 2.5)
    assert summary.ttft_ms == pytest.approx(1000)


def test_totals_over_totals_with_medians_beside(make_answer: MakeAnswer) -> None:
    slow = make_answer(num_tokens=101, ttft_s=0.5, total_s=100.5)
    fast = make_answer(num_tokens=11, ttft_s=0.1, total_s=1.1)
    summary = summarise([slow, fast])
    assert summary.tokens_per_s == pytest.approx(110 / 101)
    assert summary.tokens_per_s_median == pytest.approx((1 + 10) / 2)
    assert summary.ttft_ms == pytest.approx(300)
    assert summary.ttft_ms_max == pytest.approx(500)
    assert summary.num_tokens == 112


def test_passes_and_acceptance_come_from_the_target(make_answer: MakeAnswer) -> None:
    answers = [
        make_answer(num_tokens=20, num_proposed=16, num_accepted=12),
        make_answer(num_tokens=10, num_proposed=4, num_accepted=3),
    ]
    summary = summarise(answers)
    assert summary.num_passes == 15
    assert summary.tokens_per_pass == pytest.approx(2.0)
    assert summary.acceptance_rate == pytest.approx(15 / 20)


def test_the_pass_that_reads_the_prompt_verifies_nothing(make_answer: MakeAnswer) -> None:
    one = make_answer(num_tokens=21, num_proposed=20, num_accepted=15, ttft_s=0.5, total_s=1.5)
    summary = summarise([one, one])
    assert summary.num_passes == 12
    assert summary.mean_accepted_length == pytest.approx(30 / 10)
    assert summary.pass_ms == pytest.approx(2000 / 10)


def test_a_target_alone_has_no_acceptance(make_answer: MakeAnswer) -> None:
    summary = summarise([make_answer(num_tokens=7)])
    assert summary.acceptance_rate is None
    assert summary.mean_accepted_length is None
    assert summary.tokens_per_pass == 1.0


def test_nothing_measured_is_none_not_zero() -> None:
    summary = summarise([])
    assert summary.tokens_per_s is None
    assert summary.ttft_ms is None
    assert summary.tokens_per_pass is None


def test_an_answer_of_one_token_counts_but_has_no_rate(make_answer: MakeAnswer) -> None:
    short = make_answer(num_tokens=1, ttft_s=0.5, total_s=0.5)
    long = make_answer(num_tokens=11, ttft_s=0.5, total_s=1.5)
    summary = summarise([short, long])
    assert summary.tokens_per_s == pytest.approx(10)
    assert summary.tokens_per_s_median == pytest.approx(10)
    assert summary.num_tokens == 12


def test_throughput_counts_each_round_as_long_as_its_longest_answer(
    make_answer: MakeAnswer,
) -> None:
    answers = [make_answer(num_tokens=10, total_s=seconds) for seconds in (1.0, 4.0, 2.0)]
    assert speed(throughput(answers, 2)) == pytest.approx(30 / 6.0)
    assert speed(decoding(answers)) == pytest.approx(27 / 6.7)
    assert speed(throughput([], 2)) is None


def test_ratio() -> None:
    assert ratio(10.0, 4.0) == pytest.approx(2.5)
    assert ratio(None, 4.0) is None
    assert ratio(10.0, None) is None
    assert ratio(10.0, 0.0) is None
