"""A finished benchmark, and what follows from it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.bench.intervals import Interval, rate_interval, ratio_interval
from specproxy.bench.runner import ArmResult, BenchOptions, best_native
from specproxy.bench.stats import ratio
from specproxy.bench.workloads import Prompt


@dataclass(frozen=True, slots=True)
class Compared:
    """How many times as fast one arm is as another; None where that is not known."""

    times: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        results: the target alone first.
        llama_build: version that the servers give themselves.
        draft: another than the demo's own, as it was asked for.
        front_rtt_ms: round trip between the servers and their clients; the proxies that are beside
            their servers are their clients, too. See `kinds.ProxyKind` for those that are not.
    """

    results: Sequence[ArmResult]
    prompts: Sequence[Prompt]
    options: BenchOptions
    rtt_ms: float
    num_workers: int
    mode: str
    llama_build: str
    draft: str = ""
    front_rtt_ms: float = 0.0

    @property
    def identical(self) -> bool:
        """Whether every answer of every arm is the target's own."""
        return all(result.identical for result in self.results)

    @property
    def shown(self) -> list[ArmResult]:
        """One result for each arm: of several native ones the fastest."""
        best = best_native(self.results)
        return [one for one in self.results if one.arm.name != "native" or one is best]

    @property
    def alone(self) -> ArmResult:
        """The target alone."""
        return self.results[0]

    def speed_interval(self, result: ArmResult) -> Interval | None:
        """Of its tokens per second."""
        return rate_interval(result.portions)

    def speedup(self, result: ArmResult) -> float | None:
        """Speed against the target alone."""
        return ratio(result.tokens_per_s, self.alone.tokens_per_s)

    def against_alone(self, result: ArmResult) -> Compared:
        """As `speedup`, with its interval."""
        return self._compared(result, self.alone)

    def against_native(self, result: ArmResult) -> Compared:
        """Speed against the best of llama-server's own draft."""
        best = best_native(self.results)
        return Compared(None) if best is None else self._compared(result, best)

    def _compared(self, result: ArmResult, base: ArmResult) -> Compared:
        times = ratio(result.tokens_per_s, base.tokens_per_s)
        if times is None or result is base:
            return Compared(times)
        paired = self.options.paired
        return Compared(times, ratio_interval(result.portions, base.portions, paired=paired))


def differences(report: Report) -> list[str]:
    """A line for each tie and each difference."""
    lines = []
    for result in report.results:
        for prompt, verdict in zip(result.prompts, result.verdicts, strict=True):
            found = [("tie", tie) for tie in verdict.ties]
            if verdict.difference is not None:
                found.append(("DIFFERENCE", verdict.difference))
            for what, one in found:
                gap = "not among the likely ones" if one.gap is None else f"gap {one.gap:.4f}"
                lines.append(
                    f"{what} in {result.arm.label}, {prompt.kind}, token {one.position}: "
                    f"{one.expected!r} in the target, {one.said!r} here ({gap})"
                )
    return lines


def unaided(report: Report) -> list[str]:
    """A line for each proxy that some answers went past."""
    return [
        f"{result.arm.label}: only {followed} of {len(result.answers)} answers were sped up."
        for result in report.results
        if (followed := result.proxy_counts.get("num_answers", len(result.answers)))
        < len(result.answers)
    ]
