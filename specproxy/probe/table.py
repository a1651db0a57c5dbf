"""A probed target as a table for people and as JSON for machines. Pure."""

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specproxy.probe.report import PoolFlags, Report, Speeds
from specproxy.probe.verdicts import best, command, verdicts


def as_json(report: Report) -> dict[str, Any]:
    """All of it."""
    speeds = report.speeds
    return {
        "target": asdict(report),
        "new_shape_s": None if speeds is None else speeds.new_shape_s,
        "verdicts": [asdict(verdict) for verdict in verdicts(report)],
        "best": best(report).way,
        "command": command(report),
    }


def as_table(report: Report) -> RenderableType:
    """What it is, which ways work, what to change."""
    what = Table(title=report.url, show_header=False, title_justify="left")
    for name, value in _rows(report):
        what.add_row(name, value)
    ways = Table(title="Ways", title_justify="left")
    for header in ("way", "", "why", "better with"):
        ways.add_column(header)
    for one in verdicts(report):
        mark = Text("yes", style="green") if one.works else Text("no", style="red")
        ways.add_row(one.way, mark, one.reason, one.remedy)
    parts: list[RenderableType] = [what, ways]
    parts.append(Text(f"specproxy will use: {best(report).way}", style="bold"))
    if proposed := command(report):
        parts.append(Text("For the best speed, beside your --rpc and --device flags:"))
        parts.append(Text(f"  {proposed}", no_wrap=True, overflow="ignore"))
    return Group(*parts)


def _rows(report: Report) -> list[tuple[str, str]]:
    batches = {True: "yes", False: "no", None: "not measured"}[report.shares_passes]
    rows = [
        ("model", f"{report.model}, {report.num_vocab} tokens in its vocabulary"),
        ("build", report.build),
        ("slots", str(report.num_slots)),
        ("context", f"{report.num_context} tokens (trained for {report.num_context_trained})"),
        ("slots share passes", f"{batches} (--kv-unified --cache-ram 0)"),
        ("chat template", "yes" if report.template else "none"),
        ("input beside text", ", ".join(report.modalities) or "none"),
        ("own speculation", report.speculation or "not told"),
        ("n-gram pool", _pool(report.pool)),
    ]
    if report.groups is not None:
        rows.append(("batches in flight", str(report.groups)))
    if report.speeds is not None:
        rows += _speeds(report.speeds)
    rows += [(f"no {what}", without) for what, without in report.lacking.items()]
    return rows


def _pool(pool: PoolFlags) -> str:
    if pool.n_match is None:
        return "takes no seeds"
    least = " or more" if pool.n_max_is_least else ""
    n_min = "more than 16" if pool.n_min is None else str(pool.n_min)
    return f"takes seeds: n_match {pool.n_match}, n_min {n_min}, n_max {pool.n_max}{least}"


def _speeds(speeds: Speeds) -> list[tuple[str, str]]:
    passes = ", ".join(f"{length}: {_ms(time_s)}" for length, time_s in speeds.pass_s.items())
    warming = "warming pays" if speeds.warming_pays else "warming is not needed"
    return [
        ("round trip to it", _ms(speeds.link_s)),
        ("pass by its tokens", passes),
        ("a new number of tokens", f"{_ms(speeds.new_shape_s)} more, {warming}"),
        ("round trips in a pass", f"about {_ms(speeds.new_shape_s / 4)} if workers are remote"),
    ]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.1f} ms"
