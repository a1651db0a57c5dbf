"""All checks, one after the other; what they found as a table and in words."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from specproxy.bench.table import Grid, Row
from specproxy.equivalence.check import CheckResult, Extent, Pair
from specproxy.equivalence.greedy import concurrent, serial
from specproxy.equivalence.histories import continued, rewritten
from specproxy.equivalence.limit import near_limit
from specproxy.equivalence.sampling import seeded

Check = Callable[[Pair, Extent], Awaitable[CheckResult]]
CHECKS: tuple[Check, ...] = (serial, continued, rewritten, concurrent, seeded, near_limit)
"""The last one fills the cache, which then drops what the others would reuse."""
NOTHING_ACCEPTED = "nothing was accepted: these answers came without speculation, and prove nothing"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What all checks of one pair found."""

    title: str
    results: Sequence[CheckResult]

    @property
    def speculated(self) -> bool:
        return any(result.num_accepted for result in self.results)

    @property
    def passed(self) -> bool:
        return self.speculated and all(result.passed for result in self.results)


async def run_checks(
    pair: Pair,
    extent: Extent,
    checks: Sequence[Check] = CHECKS,
    *,
    watch: Callable[[str], None] = lambda what: None,
) -> SuiteResult:
    """Run `checks` on `pair`.

    Args:
        watch: told what each check is about, when it begins.

    Raises:
        TargetError: one of the two failed.
    """
    results = []
    for check in checks:
        watch((check.__doc__ or "").strip().rstrip("."))
        results.append(await check(pair, extent))
    return SuiteResult(pair.title, results)


def suite_grid(suite: SuiteResult) -> Grid:
    """A row for each check."""
    columns = ["check", "answers", "identical", "ties", "accepted", "what happened"]
    rows = [Row(_cells(result)) for result in suite.results]
    return Grid(f"{suite.title}: through the proxy against the target alone", columns, rows)


def _cells(result: CheckResult) -> list[str]:
    if result.skipped:
        return [result.name, "-", "not run", "-", "-", result.skipped]
    num_identical = sum(one.verdict.identical for one in result.compared)
    return [
        result.name,
        str(len(result.compared)),
        str(num_identical) if result.identical else f"{num_identical} NOT ALL",
        str(result.num_ties),
        f"{result.num_accepted} of {result.num_proposed}",
        result.evidence,
    ]


def findings(suite: SuiteResult) -> Iterator[str]:
    """A line for each tie, each difference, and each thing that was not proven."""
    for result in suite.results:
        for one in result.compared:
            found = [("tie", tie) for tie in one.verdict.ties]
            if one.verdict.difference is not None:
                found.append(("DIFFERENCE", one.verdict.difference))
            for what, finding in found:
                gap = "not among the likely ones" if finding.gap is None else f"{finding.gap:.4f}"
                yield (
                    f"{what} in {suite.title}, {result.name}, {one.label}, token"
                    f" {finding.position}: {finding.expected!r} in the control,"
                    f" {finding.said!r} here (gap {gap})"
                )
        if result.lacking:
            yield f"NOT PROVEN in {suite.title}, {result.name}: {result.lacking}"
    if not suite.speculated:
        yield f"NOT PROVEN in {suite.title}: {NOTHING_ACCEPTED}"


def conclusion(suites: Sequence[SuiteResult]) -> str:
    """One line."""
    results = [result for suite in suites for result in suite.results]
    num_answers = sum(len(result.compared) for result in results)
    num_ties = sum(result.num_ties for result in results)
    if not all(suite.passed for suite in suites):
        return "not identical, or not proven: see above"
    if num_ties:
        return f"identical but for {num_ties} near-ties in {num_answers} answers, each shown above"
    return f"all identical ({num_answers} answers)"
