"""A sweep over round trips or over clients: what it measured, and what follows from it. Pure.

Invariant: at every point the same prompts, each time asked of servers that were started anew; so
what changes from point to point is the link alone, or the number of clients alone, and no server
knows an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from specproxy.bench.export import conditions, speeds
from specproxy.bench.intervals import Interval
from specproxy.bench.machine import Json
from specproxy.bench.report import Report, differences
from specproxy.bench.runner import ArmResult
from specproxy.bench.table import INTERVALS_SAID, Grid, Row, equality, figure, what_was_asked
from specproxy.bench.verdict import batching, fastest, verdict


@dataclass(frozen=True, slots=True)
class Axis:
    """What changes from point to point.

    Attributes:
        key: its name in JSON.
        title: of a plot's axis; `heading`: of a table's column; `unit`: behind a number.
        value: where a report stands.
    """

    key: str
    title: str
    heading: str
    unit: str
    value: Callable[[Report], float]

    def named(self, *reports: Report) -> str:
        """One or two ends of a range."""
        return " to ".join(f"{self.value(one):g}" for one in reports) + f" {self.unit}"


BY_RTT = Axis(
    "rtt_ms", "round trip to each worker, ms", "RTT ms", "ms", lambda report: report.rtt_ms
)
BY_CLIENTS = Axis(
    "clients",
    "requests at a time",
    "clients",
    "at a time",
    lambda report: report.options.num_clients,
)


@dataclass(frozen=True, slots=True)
class Line:
    """An arm along an axis; None where it was not measured."""

    label: str
    values: Sequence[float]
    speeds: Sequence[float | None]
    intervals: Sequence[Interval | None]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Finished rounds.

    Attributes:
        rounds: at least one; a report for each point, all of the same arms and prompts.
    """

    rounds: Sequence[Report]
    axis: Axis = BY_RTT

    @property
    def identical(self) -> bool:
        """Whether every answer of every round is the target's own."""
        return all(report.identical for report in self.rounds)

    @property
    def lines(self) -> list[Line]:
        """One for each arm, several native ones included."""
        values = [self.axis.value(report) for report in self.rounds]
        by_arm = zip(*(report.results for report in self.rounds), strict=True)
        return [self._line(values, results) for results in by_arm]

    def _line(self, values: Sequence[float], results: Sequence[ArmResult]) -> Line:
        return Line(
            results[0].arm.label,
            values,
            [result.tokens_per_s for result in results],
            [
                report.speed_interval(result)
                for report, result in zip(self.rounds, results, strict=True)
            ],
        )


def sweep_json(sweep: Sweep, facts: Json | None = None) -> Json:
    """A point for each arm at each value of the axis; `facts` on the machine are read when None."""
    last = sweep.rounds[-1]
    return {
        "workers": last.num_workers,
        "mode": last.mode,
        "axis": sweep.axis.key,
        "points": [
            {
                "rtt_ms": report.rtt_ms,
                "clients": report.options.num_clients,
                **speeds(report, result),
            }
            for report in sweep.rounds
            for result in report.results
        ],
        "verdict": sweep_verdict(sweep),
        "differences": sweep_differences(sweep),
        **conditions(last, facts),
        "identical": sweep.identical,
    }


def sweep_grid(sweep: Sweep) -> Grid:
    """A row for each arm at each value of the axis."""
    columns = ["arm", sweep.axis.heading, "tok/s", "ratio", "native", "TTFT ms", "accepted"]
    columns += ["length", "tok/pass", "identical"]
    rows = [
        Row(_cells(sweep.axis, report, result), result.arm.name == "specproxy")
        for report in sweep.rounds
        for result in report.results
    ]
    first = sweep.rounds[0]
    said = "at each round trip the same prompts of new servers"
    if sweep.axis is not BY_RTT:
        said = f"{first.rtt_ms:g} ms round trip each; each time the same prompts of new servers"
    return Grid(what_was_asked(first, said), columns, rows, INTERVALS_SAID)


def _cells(axis: Axis, report: Report, result: ArmResult) -> list[str]:
    summary = result.summary
    alone, native = report.against_alone(result), report.against_native(result)
    return [
        result.arm.label,
        f"{axis.value(report):g}",
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
        f"{sweep.axis.named(report)}: {line}"
        for report in sweep.rounds
        for line in differences(report)
    ]


def sweep_verdict(sweep: Sweep) -> list[str]:
    """Which arm is the fastest where, and what that means at the far end of the axis."""
    said = []
    for label, group in groupby(sweep.rounds, key=_fastest_label):
        reports = list(group)
        ends = (reports[0], reports[-1]) if len(reports) > 1 else (reports[0],)
        times = " to ".join(f"{_best_speedup(report):.1f}" for report in ends)
        gain = "" if label == reports[0].alone.arm.label else f", {times} times the target alone"
        said.append(f"{sweep.axis.named(*ends)}: {label} is the fastest{gain}.")
    if sweep.axis is BY_CLIENTS:
        said += batching(sweep.rounds)
    last = max(sweep.rounds, key=sweep.axis.value)
    return said + [f"At {sweep.axis.named(last)}: {line}" for line in verdict(last)]


def _fastest_label(report: Report) -> str:
    best = fastest(report)
    return report.alone.arm.label if best is None or _best_speedup(report) <= 1 else best.arm.label


def _best_speedup(report: Report) -> float:
    best = fastest(report)
    return 0.0 if best is None else report.speedup(best) or 0.0
