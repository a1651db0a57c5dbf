"""What seeding must reach, row by row, and whether a measured row does. Pure.

Invariant: a figure with a recorded draft never takes the place of the plain one; both are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from specproxy.bench.intervals import Interval, median_interval, ratio_interval
from specproxy.bench.kinds import Way
from specproxy.bench.options import BenchCommand
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult, best_native
from specproxy.bench.stats import ratio, ratios

Base = Literal["alone", "native", "near"]
"""What an arm is compared with: the target alone, the best of its own drafts, or, for an arm that
is far from its target, the same beside it."""
_BASES: dict[Base, str] = {
    "alone": "the target alone",
    "native": "its own draft",
    "near": "the same beside the target",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing to reach.

    Attributes:
        limit: of the ratio, at least; of times to first token, at most.
        quantity: `speed`: tokens per second; `ttft`: time to first token.
    """

    limit: float
    base: Base
    way: Way = "seeding"
    quantity: Literal["speed", "ttft"] = "speed"

    @property
    def at_most(self) -> bool:
        return self.quantity == "ttft"

    @property
    def title(self) -> str:
        """In words."""
        way = self.way.replace("-", " ")
        sign, what = ("<=", "TTFT, ") if self.at_most else (">=", "")
        return f"{what}{way} {sign} {self.limit:g} x {_BASES[self.base]}"

    def allows(self, times: float) -> bool:
        """Whether a ratio reaches it."""
        return times <= self.limit if self.at_most else times >= self.limit


@dataclass(frozen=True, slots=True)
class BarRow:
    """A link and a load, and what is to be reached there."""

    name: str
    title: str
    command: BenchCommand
    bars: Sequence[Bar]

    @property
    def line(self) -> str:
        """What one types to measure it alone."""
        return f"specproxy bench --bars {self.name}"


@dataclass(frozen=True, slots=True)
class Reached:
    """What one arm came to.

    Attributes:
        times: the ratio; of times to first token the median of the prompts' ratios.
        median: of the ratios of the single prompts.
    """

    bar: Bar
    label: str
    base_label: str
    times: float
    interval: Interval | None
    median: float | None

    @property
    def is_met(self) -> bool:
        return self.bar.allows(self.times)

    @property
    def is_sure(self) -> bool:
        """Whether all of the interval is on the same side of the bar."""
        if self.interval is None:
            return False
        ends = (self.interval.low, self.interval.high)
        return all(self.bar.allows(end) == self.is_met for end in ends)


@dataclass(frozen=True, slots=True)
class MeasuredBar:
    """One bar, with the real draft and with a recorded one; None: not measured."""

    bar: Bar
    plain: Reached | None
    recorded: Reached | None


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """A row with its report."""

    row: BarRow
    report: Report

    @property
    def bars(self) -> list[MeasuredBar]:
        return [
            MeasuredBar(
                bar,
                reached(bar, self.report, recorded=False),
                reached(bar, self.report, recorded=True),
            )
            for bar in self.row.bars
        ]

    @property
    def is_met(self) -> bool:
        """Whether all bars are reached with the real draft, and every answer is the target's."""
        met = all(one.plain is not None and one.plain.is_met for one in self.bars)
        return met and self.report.identical


def reached(bar: Bar, report: Report, *, recorded: bool) -> Reached | None:
    """What the best arm of the bar's kind came to; None: there is none, or it was not timed."""
    front_rtt_ms = report.front_rtt_ms if bar.base == "near" else 0.0
    found = _best(report, bar.way, front_rtt_ms, recorded=recorded)
    base = {
        "alone": report.alone,
        "native": best_native(report.results),
        "near": _best(report, bar.way, 0.0, recorded=recorded),
    }[bar.base]
    if found is None or base is None:
        return None
    if bar.quantity == "ttft":
        pairs = zip(found.answers, base.answers, strict=True)
        each = [one.ttft_s / other.ttft_s for one, other in pairs]
        times: float | None = median(each)
        interval = median_interval(each)
    else:
        each = ratios(found.portions, base.portions)
        times = ratio(found.tokens_per_s, base.tokens_per_s)
        interval = ratio_interval(found.portions, base.portions)
    if times is None:
        return None
    middle = median(each) if each else None
    return Reached(bar, found.arm.label, base.arm.label, times, interval, middle)


def _best(report: Report, way: Way, front_rtt_ms: float, *, recorded: bool) -> ArmResult | None:
    """The fastest arm of that kind."""
    found = [
        result
        for result in report.results
        if (kind := result.arm.kind) is not None
        and (kind.way, kind.front_rtt_ms) == (way, front_rtt_ms)
        and result.arm.is_recorded == recorded
    ]
    return max(found, key=lambda one: one.tokens_per_s or 0.0, default=None)
