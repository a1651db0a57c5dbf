"""Reports as tables: one form for the terminal and for the page. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from specproxy.bench.intervals import LEVEL, Interval
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult

INTERVALS_SAID = f"Below a speed or a ratio: its {LEVEL:.0%} interval, the prompts drawn anew."


@dataclass(frozen=True, slots=True)
class Row:
    """Cells in the columns' order; one may have two lines."""

    cells: Sequence[str]
    stands_out: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Attributes:
        columns: headings; what is below the first is text, what is below the others figures.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""


def arms_grid(report: Report) -> Grid:
    """Every arm measured."""
    columns = ["arm", "tok/s", "ratio", "native", "median", "TTFT ms", "tokens", "passes"]
    columns += ["pass ms", "accepted", "length", "tok/pass", "identical", "warm-up s"]
    rows = [
        Row(_cells(report, result), result.arm.name == "specproxy") for result in report.results
    ]
    return Grid(what_was_asked(report), columns, rows, INTERVALS_SAID)


def what_was_asked(report: Report, link: str | None = None) -> str:
    """One line on the conditions.

    Args:
        link: what to say of the link; None says its round trip.
    """
    options = report.options
    parts = [f"{len(report.prompts)} prompts, up to {options.num_tokens} tokens each, greedy"]
    if report.num_workers:
        link = link or f"{report.rtt_ms:g} ms round trip each"
        parts.append(f"{report.num_workers} workers, {link}")
    if options.num_clients > 1:
        parts.append(f"{options.num_clients} at a time")
    return "; ".join(parts)


def _cells(report: Report, result: ArmResult) -> list[str]:
    summary = result.summary
    alone, native = report.against_alone(result), report.against_native(result)
    return [
        result.arm.label,
        figure(result.tokens_per_s, ".1f", report.speed_interval(result)),
        figure(alone.times, ".2f", alone.interval),
        figure(native.times, ".2f", native.interval),
        figure(summary.tokens_per_s_median, ".1f"),
        figure(summary.ttft_ms, ".0f"),
        str(summary.num_tokens),
        str(summary.num_passes),
        figure(summary.pass_ms, ".0f"),
        figure(summary.acceptance_rate, ".0%"),
        figure(summary.mean_accepted_length, ".2f"),
        figure(summary.tokens_per_pass, ".2f"),
        equality(result),
        figure(result.warm_up.seconds + result.warm_up.ready_s, ".0f"),
    ]


def equality(result: ArmResult) -> str:
    """Whether its answers are the target's own, ties counted."""
    count = result.num_ties
    ties = f" ({count} {'tie' if count == 1 else 'ties'})" if count else ""
    return ("yes" if result.identical else "NO") + ties


def figure(value: float | None, form: str, interval: Interval | None = None) -> str:
    """A number, its interval in a second line."""
    if value is None:
        return "-"
    below = "" if interval is None else f"\n{interval.low:{form}}-{interval.high:{form}}"
    return format(value, form) + below


def on_terminal(grid: Grid) -> Table:
    """The grid for a console."""
    table = Table(
        title=grid.title,
        title_justify="left",
        caption=grid.note or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for index, name in enumerate(grid.columns):
        table.add_column(name, no_wrap=True, justify="right" if index else "left")
    for row in grid.rows:
        table.add_row(*map(Text, row.cells), style="bold" if row.stands_out else "")
    return table
