"""`specproxy bench --bars`: measures rows one after the other and says what is reached."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from specproxy.bench.bar_rows import ROWS
from specproxy.bench.bars import BarRow, MeasuredBar, MeasuredRow, Reached
from specproxy.bench.command import WIDTH, show
from specproxy.bench.export import conditions, speeds
from specproxy.bench.machine import Json
from specproxy.bench.options import BenchCommand
from specproxy.bench.outputs import Outputs
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult
from specproxy.bench.table import Grid, Row, figure, on_terminal
from specproxy.errors import ConfigError

RESULTS = Path("bench/results/bars.json")
"""Where the rows are kept, below the folder one is in; whole reports lie in `bars/` beside it."""
COLUMNS = ("row", "link and load", "bar", "ratio", "median", "met", "recorded", "median", "met")
NOTE = (
    "Ratio: totals over totals, its 95 % interval below; median: of the prompts' own ratios."
    " Recorded: the same with a recorded draft, which takes no core."
    " A question mark: the bar lies within the interval, or too little was asked for one."
)

Measure = Callable[[BenchCommand], Awaitable[Report]]


async def measure_bars(
    rows: Sequence[BarRow], path: Path | None, measure: Measure, console: Console, out: Console
) -> int:
    """Measure `rows`; what is finished is written after each.

    Args:
        path: of the JSON file; rows that it has already and that are not measured stay. None writes
            none.
        measure: does what a command asks for.

    Returns:
        The exit code: 0 if all bars are met with the real draft, and every answer was the target's
        own.
    """
    done: list[MeasuredRow] = []
    for number, row in enumerate(rows, 1):
        console.print(f"[{number}/{len(rows)}] {row.line}", markup=False, highlight=False)
        command = replace(row.command, line=row.line, outputs=_outputs(row, path))
        command.check()
        report = await measure(command)
        show(report, out)
        command.outputs.write_report(report, command.line)
        done.append(MeasuredRow(row, report))
        if path is not None:
            write_rows(path, [done[-1]])
    wide = out if out.is_terminal else Console(file=out.file, width=WIDTH)
    wide.print(on_terminal(bars_grid(done)))
    return 0 if all(one.is_met for one in done) else 1


def _outputs(row: BarRow, path: Path | None) -> Outputs:
    """Raises:
    ConfigError: the folder cannot be made.
    """
    if path is None:
        return Outputs()
    folder = path.with_suffix("")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}.") from error
    return Outputs(json=folder / f"{row.name}.json")


def bars_grid(done: Sequence[MeasuredRow]) -> Grid:
    """A line for each bar."""
    rows = [
        Row([row.row.name, row.row.title, one.bar.title, *_cells(one.plain), *_cells(one.recorded)])
        for row in done
        for one in row.bars
    ]
    return Grid("What must be reached", COLUMNS, rows, NOTE)


def _cells(reached: Reached | None) -> list[str]:
    if reached is None:
        return ["-", "-", "-"]
    met = ("yes" if reached.is_met else "NO") + ("" if reached.is_sure else "?")
    times = figure(reached.times, ".2f", reached.interval)
    return [times, figure(reached.median, ".2f"), met]


def write_rows(path: Path, done: Sequence[MeasuredRow]) -> None:
    """Put rows into the file, in place of what it had of them."""
    known = _known(path)
    known.update({one.row.name: row_json(one) for one in done})
    ordered = {row.name: known[row.name] for row in ROWS if row.name in known}
    path.write_text(json.dumps({"rows": ordered}, indent=1) + "\n", encoding="utf-8")


def _known(path: Path) -> Json:
    """The file's rows; none where it is no such file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return rows if isinstance(rows, dict) else {}


def row_json(done: MeasuredRow, facts: Json | None = None) -> Json:
    """A row for the file; `facts` on the machine are read when None."""
    report = done.report
    return {
        "title": done.row.title,
        "command": done.row.line,
        "is_met": done.is_met,
        "bars": [_bar_json(one) for one in done.bars],
        "arms": [_arm_json(done, result) for result in report.results],
        "link": {"rtt_ms": report.rtt_ms, "front_rtt_ms": report.front_rtt_ms},
        "draft": report.draft,
        **conditions(report, facts),
    }


def _bar_json(one: MeasuredBar) -> Json:
    return {
        "title": one.bar.title,
        **asdict(one.bar),
        "plain": _reached_json(one.plain),
        "recorded": _reached_json(one.recorded),
    }


def _reached_json(reached: Reached | None) -> Json | None:
    if reached is None:
        return None
    interval = reached.interval
    return {
        "arm": reached.label,
        "against": reached.base_label,
        "times": round(reached.times, 4),
        "interval": interval and [round(interval.low, 4), round(interval.high, 4)],
        "median": reached.median and round(reached.median, 4),
        "is_met": reached.is_met,
        "is_sure": reached.is_sure,
    }


def _arm_json(done: MeasuredRow, result: ArmResult) -> Json:
    entry = speeds(done.report, result)
    if result.tally is not None:
        entry["tally"] = asdict(result.tally)
        entry["proxy"] = dict(result.proxy_counts)
    return entry
