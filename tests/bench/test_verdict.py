"""The words follow the figures."""

from collections.abc import Callable
from typing import Any

import pytest

from specproxy.bench.judge import Finding, Verdict
from specproxy.bench.stats import Answer
from specproxy.bench.verdict import fastest, limit, verdict

MakeAnswer = Callable[..., Answer]
SECONDS = (9.0, 10.0, 11.0, 10.5, 9.5, 10.0)


@pytest.fixture
def answers(make_answer: MakeAnswer) -> Callable[..., list[Answer]]:
    """Of six prompts, 101 tokens each, some prompts slower than others."""

    def made(times: float, *, proposed: int = 0, accepted: int = 0) -> list[Answer]:
        return [
            make_answer(
                num_tokens=101,
                num_proposed=proposed,
                num_accepted=accepted,
                ttft_s=1.0,
                total_s=1.0 + seconds / times,
            )
            for seconds in SECONDS
        ]

    return made


def test_it_pays(made_report: Any, answers: Any) -> None:
    report = made_report(
        {
            "target alone": answers(1.0),
            "own draft, n=8": answers(2.0, proposed=100, accepted=80),
            "specproxy (seeding)": answers(3.0, proposed=100, accepted=70),
        }
    )
    first, beside, *limits = verdict(report)
    assert first.startswith("Speculation pays here: specproxy (seeding) is 3.00 times")
    assert "(95%: 3.00 to 3.00)" in first
    assert beside.startswith("specproxy (seeding) is 1.50 times")
    assert beside.endswith("its own draft (n=8).")
    assert [line.split(":")[0] for line in limits] == [
        "What limits specproxy (seeding)",
        "What limits own draft, n=8",
    ]


def test_it_does_not_pay(made_report: Any, answers: Any) -> None:
    report = made_report(
        {"target alone": answers(1.0), "specproxy (seeding)": answers(0.8, proposed=9, accepted=1)}
    )
    assert verdict(report)[0].startswith("Speculation does not pay here: specproxy (seeding)")


def test_it_cannot_be_told(made_report: Any, answers: Any) -> None:
    alone, proxied = answers(1.0), answers(1.02, proposed=9, accepted=1)
    report = made_report({"target alone": alone, "specproxy (seeding)": proxied[2:] + proxied[:2]})
    assert verdict(report)[0].startswith("Whether speculation pays here cannot be told")


def test_the_faster_native_is_said_first_and_the_proxy_after(
    made_report: Any, answers: Any
) -> None:
    report = made_report(
        {
            "target alone": answers(1.0),
            "own draft, n=8": answers(4.0, proposed=100, accepted=80),
            "specproxy (seeding)": answers(2.0, proposed=100, accepted=70),
            "specproxy (coordinator)": answers(3.0, proposed=100, accepted=70),
        }
    )
    first, second, third, *_ = verdict(report)
    assert "own draft, n=8 is 4.00 times" in first
    assert second.startswith("specproxy (coordinator) is 3.00 times")
    assert third.startswith("specproxy (coordinator) is 0.75 times")
    assert fastest(report, "native") is report.results[1]


def test_a_difference_comes_before_any_speed(made_report: Any, answers: Any) -> None:
    different = [Verdict(Finding(3, " sea", " sun", None)), *[Verdict()] * 5]
    report = made_report(
        {"target alone": answers(1.0), "specproxy (seeding)": answers(3.0, proposed=9, accepted=8)},
        verdicts={"specproxy (seeding)": different},
    )
    assert verdict(report)[0].startswith("Not every answer is the target's own (specproxy (seed")


def test_the_target_alone_has_no_verdict(made_report: Any, answers: Any) -> None:
    assert verdict(made_report({"target alone": answers(1.0)})) == [
        "No arm speculated, or none could be timed."
    ]


@pytest.mark.parametrize(
    ("times", "proposed", "accepted", "said"),
    [
        (1.4, 100, 30, "acceptance: 30% of 1.4 proposed tokens"),
        (1.5, 82, 80, "the time of a pass: 333 ms, and 100 ms for the target alone"),
        (2.0, 52, 50, "the number of passes"),
        (0.9, 0, 0, "nothing was drafted in time"),
    ],
)
def test_the_limit_is_what_would_help_most(
    made_report: Any, answers: Any, times: float, proposed: int, accepted: int, said: str
) -> None:
    mine = answers(times, proposed=proposed, accepted=accepted)
    report = made_report({"target alone": answers(1.0), "specproxy (seeding)": mine})
    assert limit(report.results[1], report.alone).startswith(said)
