"""`specproxy verify-equivalence`: servers up, checks with progress, table, exit code."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from rich.console import Console

from specproxy.bench.table import on_terminal
from specproxy.equivalence.check import Extent, Pair
from specproxy.equivalence.suite import (
    CHECKS,
    Check,
    SuiteResult,
    conclusion,
    findings,
    run_checks,
    suite_grid,
)
from specproxy.progress import Step

WIDTH = 160
"""Of a table that goes into a file."""
PairStart = Callable[[], AbstractAsyncContextManager[Pair]]


async def verify(
    starts: Sequence[PairStart],
    extent: Extent,
    console: Console,
    out: Console,
    *,
    checks: Sequence[Check] = CHECKS,
) -> int:
    """Check one pair after the other.

    Args:
        starts: brings up each.
        console: for progress.
        out: for the result.

    Returns:
        The exit code: 0 if every check of every pair passed.
    """
    if not out.is_terminal:
        out = Console(file=out.file, width=WIDTH)
    suites = []
    for start in starts:
        async with start() as pair:
            suites.append(await _checked(pair, extent, console, checks))
        show(suites[-1], out)
    out.print(conclusion(suites), style="bold", highlight=False, markup=False, soft_wrap=True)
    return 0 if all(suite.passed for suite in suites) else 1


async def _checked(
    pair: Pair, extent: Extent, console: Console, checks: Sequence[Check]
) -> SuiteResult:
    with Step(console, f"Checking {pair.title}") as step:
        return await run_checks(pair, extent, checks, watch=lambda what: step.update(f"[{what}]"))


def show(suite: SuiteResult, out: Console) -> None:
    """Print the table, and each tie, difference and lack."""
    out.print(on_terminal(suite_grid(suite)))
    for line in findings(suite):
        out.print(line, highlight=False, markup=False, soft_wrap=True)
