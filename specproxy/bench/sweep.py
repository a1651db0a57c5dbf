"""A sweep over round trips: what it measured, and what follows from it. Pure.

Invariant: at every round trip the same prompts, each time asked of servers that were started
anew; so what changes from point to point is the link alone, and no server knows an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from specproxy.bench.export import conditions, speeds
from specproxy.bench.intervals import Interval
from specproxy.bench.machine import Json
from specproxy.bench.report import Report, differences
from specproxy.bench.runner import ArmResult
from specproxy.bench.table import INTERVALS_SAID, Grid, Row, equality, figure, what_was_asked
from specproxy.bench.verdict import fastest, verdict


@dataclass(frozen=True, slots=True)
class Line:
    """An arm along the round trips; None where it was not measured."""

    label: str
    rtts_ms: Sequence[float]
    speeds: Sequence[float | None]
    intervals: Sequence[Interval | None]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Finished rounds.

    Attributes:
        rounds: at least one; a report for each round trip, all of the same arms and prompts.
    """

    rounds: Sequence[Report]

    @property
    def identical(self) -> bool:
        """Whether every answer of every round is the target's own."""
        return all(report.identical for report in self.rounds)

    @property
    def lines(self) -> list[Line]:
        """One for each arm, several native ones included."""
        rtts_ms = [report.rtt_ms for report in self.rounds]
        by_arm = zip(*(report.results for report in self.rounds), strict=True)
        return [self._line(rtts_ms, results) for results in by_arm]

    def _line(self, rtts_ms: Sequence[float], results: Sequence[ArmResult]) -> Line:
        return Line(
            results[0].arm.label,
            rtts_ms,
            [result.tokens_per_s for result in results],
            [
                report.speed_interval(result)
                for report, result in zip(self.rounds, results, strict=True)
            ],
        )


def sweep_json(sweep: Sweep, facts: Json | None = None) -> Json:
    """A point for each round trip and arm; `facts` on the machine are read when None."""
    last = sweep.rounds[-1]
    return {
        "workers": last.num_workers,
        "mode": last.mode,
        "points": [
            {"rtt_ms": report.rtt_ms, **speeds(report, result)}
            for report in sweep.rounds
            for result in report.results
        ],
        "verdict": sweep_verdict(sweep),
        "differences": sweep_differences(sweep),
        **conditions(last, facts),
        "identical": sweep.identical,
    }


def sweep_grid(sweep: Sweep) -> Grid:
    """A row for each round trip and arm."""
    columns = ["arm", "RTT ms", "tok/s", "ratio", "native", "TTFT ms", "accepted", "length"]
    columns += ["tok/pass", "identical"]
    rows = [
        Row(_cells(report, result), result.arm.name == "specproxy")
        for report in sweep.rounds
        for result in report.results
    ]
    title = what_was_asked(sweep.rounds[0], "at each round trip the same prompts of new servers")
    return Grid(title, columns, rows, INTERVALS_SAID)


def _cells(report: Report, result: ArmResult) -> list[str]:
    summary = result.summary
    alone, native = report.against_alone(result), report.against_native(result)
    return [
        result.arm.label,
        f"{report.rtt_ms:g}",
        figure(result.tokens_per_s, ".1f", report.speed_interval(result)),
        figure(alone.times, ".2f", alone.interval),
        figure(native.times, ".2f", native.interval),
        figure(summary.ttft_ms, ".0f"),
        figure(summary.acceptance_rate, ".0%"),
        figure(summary.mean_accepted_length, ".2f"),
        figure(summary.tokens_per_pass, ".2f"),
        equality(result),
    ]


def sweep_differences(sweep: Sweep) -> list[str]:
    """As `report.differences`, of all rounds."""
    return [
        f"{report.rtt_ms:g} ms: {line}" for report in sweep.rounds for line in differences(report)
    ]


def sweep_verdict(sweep: Sweep) -> list[str]:
    """Which arm is the fastest where, and what that means on the slowest link."""
    said = []
    for label, group in groupby(sweep.rounds, key=_fastest_label):
        reports = list(group)
        ends = (reports[0], reports[-1]) if len(reports) > 1 else (reports[0],)
        where = " to ".join(f"{report.rtt_ms:g}" for report in ends)
        times = " to ".join(f"{_best_speedup(report):.1f}" for report in ends)
        gain = "" if label == reports[0].alone.arm.label else f", {times} times the target alone"
        said.append(f"{where} ms: {label} is the fastest{gain}.")
    slowest = max(sweep.rounds, key=lambda report: report.rtt_ms)
    return said + [f"At {slowest.rtt_ms:g} ms: {line}" for line in verdict(slowest)]


def _fastest_label(report: Report) -> str:
    best = fastest(report)
    return report.alone.arm.label if best is None or _best_speedup(report) <= 1 else best.arm.label


def _best_speedup(report: Report) -> float:
    best = fastest(report)
    return 0.0 if best is None else report.speedup(best) or 0.0
