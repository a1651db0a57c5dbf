"""The demo's verdict, and how it shows the conversations."""

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.judge import Finding, Verdict
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult, BenchOptions
from specproxy.bench.stats import Answer
from specproxy.bench.warm import WarmUp
from specproxy.bench.workloads import PROMPTS
from specproxy.demo import DemoWatch, conclude
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient

CLIENT = TargetClient(TargetSettings())
DIFFERENT = Verdict(Finding(3, " sea", " sun", None))


def answer(total_s: float, num_accepted: int = 0) -> Answer:
    return Answer("[b]text", "length", 11, 5, 5, num_accepted, num_accepted, 1.0, total_s, 1.0)


def report(proxied_s: float, verdicts: Sequence[Verdict] = (Verdict(),)) -> Report:
    arms: list[Any] = [
        ("target", answer(11.0), (Verdict(),)),
        ("specproxy", answer(proxied_s, 6), tuple(verdicts)),
    ]
    results = [
        ArmResult(
            Arm(name, name, CLIENT, CLIENT),
            PROMPTS[:1],
            (said,),
            found,
            WarmUp(1.0, 0.0, 0, 2),
            {},
        )
        for name, said, found in arms
    ]
    return Report(results, PROMPTS[:1], BenchOptions(), 80.0, 2, "seeding", "b1")


@pytest.mark.parametrize(
    ("shown", "code", "said"),
    [
        (report(3.0), 0, "5.00 times as fast"),
        (report(3.0), 0, "identical: yes"),
        (report(3.0, [DIFFERENT]), 1, "identical: no"),
        (report(12.0), 1, "not faster"),
        (report(11.0), 1, "1.00 times as fast"),
    ],
)
def test_only_identical_and_faster_is_a_success(shown: Report, code: int, said: str) -> None:
    file = io.StringIO()
    assert conclude(shown, Console(file=file, width=160)) == code
    assert said in file.getvalue()


def test_answers_stream_as_they_come() -> None:
    file = io.StringIO()
    out = Console(file=file, width=160)
    watch = DemoWatch(Console(quiet=True), out)
    arm = Arm("target", "target alone", CLIENT, CLIENT)
    watch.warming()
    watch.asking(arm, PROMPTS[0], 0)
    watch.text("[b]Hello")
    assert file.getvalue().endswith("[target alone] [b]Hello")
    watch.text(" world\n")
    watch.answered(arm, answer(11.0))
    assert "[b]Hello world\n" in file.getvalue()
    assert "1.0 tokens/s" in file.getvalue()
    assert PROMPTS[0].title in file.getvalue()
