"""Plots of reports, drawn with matplotlib, which only those who want plots need to have.

Invariant: no global state: figures are made without pyplot, settings hold for one figure.
"""

import importlib.util
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproxy.bench.intervals import Interval
from specproxy.bench.report import Report
from specproxy.bench.stats import summarise
from specproxy.bench.sweep import Sweep
from specproxy.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
COLORS = ("#8a8f98", "#d98324", "#2f7fe0", "#18a077", "#b05fc4", "#cf4f5f", "#8d7a1f")
MARKERS = "osD^vPX"
"""In the order of the arms, the target alone first; colours that show on dark and on light."""
INK = "#010203"
"""Stands for the page's own text colour in an inline plot."""


def check_plot(path: Path) -> None:
    """Find out what cannot be drawn.

    Raises:
        ConfigError: another kind of file, or matplotlib is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"A plot cannot be written as {path.name}.",
            remedy=f"Give it a name that ends in {' or '.join(SUFFIXES)}.",
        )
    check_matplotlib()


def check_matplotlib() -> None:
    """Raises:
    ConfigError: it is missing.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "Plots are drawn with matplotlib, which is not installed.",
            remedy="Install it with: pip install 'specproxy[bench]'",
        )


def draw_sweep(sweep: Sweep) -> "Figure":
    """Tokens/s over the sweep's axis, a line for each arm, its intervals as a band."""
    figure, axes = _canvas()
    for index, line in enumerate(sweep.lines):
        color = COLORS[index % len(COLORS)]
        axes.plot(
            line.values,
            [float("nan") if speed is None else speed for speed in line.speeds],
            color=color,
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            label=line.label,
        )
        known = [(x, at) for x, at in zip(line.values, line.intervals, strict=True) if at]
        axes.fill_between(
            [x for x, _ in known],
            [at.low for _, at in known],
            [at.high for _, at in known],
            color=color,
            alpha=0.15,
            linewidth=0,
        )
    axes.set_xlabel(sweep.axis.title)
    axes.set_ylabel("tokens/s")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, labelcolor=INK)
    return figure


def draw_arms(report: Report) -> "Figure":
    """Tokens/s of each arm."""
    figure, axes = _canvas(height=0.9 + 0.5 * len(report.results))
    for index, result in enumerate(report.results):
        speed = result.tokens_per_s or 0.0
        axes.barh(index, speed, height=0.6, color=COLORS[index % len(COLORS)])
        axes.errorbar(
            speed, index, xerr=_around(speed, report.speed_interval(result)), color=INK, capsize=3
        )
    axes.set_yticks(range(len(report.results)), [one.arm.label for one in report.results])
    axes.invert_yaxis()
    axes.set_xlabel("tokens/s")
    return figure


def draw_prompts(report: Report) -> "Figure":
    """Tokens/s of each arm on each prompt: where speculation helps, and where it does not."""
    figure, axes = _canvas(height=1.2 + 0.28 * len(report.prompts))
    for index, result in enumerate(report.results):
        axes.plot(
            [summarise([answer]).tokens_per_s or float("nan") for answer in result.answers],
            [report.prompts.index(prompt) for prompt in result.prompts],
            color=COLORS[index % len(COLORS)],
            marker=MARKERS[index % len(MARKERS)],
            linestyle="none",
            label=result.arm.label,
        )
    axes.set_yticks(range(len(report.prompts)), [one.kind for one in report.prompts])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("tokens/s")
    axes.legend(
        frameon=False, labelcolor=INK, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3
    )
    return figure


def save(figure: "Figure", path: Path) -> None:
    """As a file of the kind that its suffix names."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        figure.savefig(path, dpi=160, metadata=_no_date(path.suffix))


def inline(figure: "Figure", name: str) -> str:
    """As an <svg> element for a page: transparent, text in the page's colour.

    Args:
        name: tells its inner names from those of the page's other plots.
    """
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", transparent=True, metadata=_no_date(".svg"))
    text = file.getvalue()
    svg = text[text.index("<svg") :].replace(INK, "currentColor")
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(  # groups' names mean nothing, and repeat from plot to plot
        r'\sid="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg
    )
    return re.sub(r'^<svg ([^>]*)width="[^"]*"', rf'<svg \1role="img" aria-label="{name}"', svg)


def _canvas(*, height: float = 4.4) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25, color="#888888")
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return figure, axes


def _around(value: float, interval: Interval | None) -> list[list[float]] | None:
    """As error bars want it: how far down, how far up."""
    if interval is None:
        return None
    return [[max(0.0, value - interval.low)], [max(0.0, interval.high - value)]]


def _no_date(suffix: str) -> dict[str, Any] | None:
    """The same figures make the same file."""
    if suffix.lower() != ".svg":
        return None
    return dict.fromkeys(("Date", "Creator", "Format", "Type"))
