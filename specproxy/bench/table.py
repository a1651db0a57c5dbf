"""Reports as tables: one form for the terminal and for the page. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from specproxy.bench.intervals import LEVEL, Interval
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult, by_category
from specproxy.bench.stats import Answer, summarise

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
    columns += ["pass ms", "accepted", "length", "tok/pass", "identical", "warm-up s", "cold"]
    rows = [
        Row(_cells(report, result), result.arm.name == "specproxy") for result in report.results
    ]
    note = INTERVALS_SAID
    if any(result.cold for result in report.results):
        note += " Cold: the first answer after the start, its time to first token below."
    return Grid(what_was_asked(report), columns, rows, note)


def categories_grid(report: Report) -> Grid:
    """Decoding speed by category of prompt: where speculation helps, and where it does not."""
    shown = report.shown
    names = sorted({prompt.category for prompt in report.prompts})
    by_arm = [by_category(result) for result in shown]
    rows = [
        Row(
            [
                name,
                *(figure(summarise(found.get(name, ())).tokens_per_s, ".1f") for found in by_arm),
            ]
        )
        for name in names
    ]
    title = "tok/s by category of prompt, each answer by itself"
    return Grid(title, ["category", *(result.arm.label for result in shown)], rows)


def what_was_asked(report: Report, link: str | None = None) -> str:
    """One line on the conditions.

    Args:
        link: what to say of the link; None says its round trip.
    """
    options = report.options
    whose = "" if options.paired else " (each arm has its own share)"
    parts = [
        f"{len(report.prompts)} prompts{whose}, up to {options.num_tokens} tokens each, greedy"
    ]
    if report.num_workers:
        link = link or f"{report.rtt_ms:g} ms round trip each"
        parts.append(f"{report.num_workers} workers, {link}")
    if report.front_rtt_ms:
        parts.append(f"{report.front_rtt_ms:g} ms round trip to the server")
    if report.draft:
        parts.append(f"draft {report.draft}")
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
        _cold(result.cold),
    ]


def _cold(answer: Answer | None) -> str:
    """Speed of the first answer after the start, its time to first token in a second line."""
    if answer is None:
        return "-"
    return f"{figure(summarise([answer]).tokens_per_s, '.1f')}\n{1e3 * answer.ttft_s:.0f} ms"


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
