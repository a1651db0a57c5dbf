"""Reports as one HTML file that holds all it shows, and asks nobody for anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain

import jinja2
from markupsafe import Markup

from specproxy.bench.export import conditions
from specproxy.bench.machine import Json
from specproxy.bench.plot import draw_arms, draw_prompts, draw_sweep, inline
from specproxy.bench.report import Report, differences
from specproxy.bench.sweep import BY_CLIENTS, Sweep, sweep_differences, sweep_grid, sweep_verdict
from specproxy.bench.table import Grid, arms_grid
from specproxy.bench.verdict import verdict

TEMPLATE = "page.html.j2"


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows, in its order.

    Attributes:
        plots: captions and <svg> elements.
        facts: what was measured on what, by name.
    """

    title: str
    identical: bool
    verdict: Sequence[str]
    plots: Sequence[tuple[str, str]]
    grid: Grid
    differences: Sequence[str]
    prompts: Sequence[str]
    facts: Sequence[tuple[str, str]]

    def html(self) -> str:
        """The file's text."""
        environment = jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        text = files("specproxy.bench").joinpath(TEMPLATE).read_text(encoding="utf-8")
        plots = [(caption, Markup(svg)) for caption, svg in self.plots]
        return environment.from_string(text).render(page=self, plots=plots) + "\n"


def report_page(report: Report, command: str, facts: Json | None = None) -> Page:
    """The page of a benchmark.

    Args:
        command: that measured it.
        facts: on the machine; read when None.
    """
    return Page(
        title="Benchmark",
        identical=report.identical,
        verdict=verdict(report),
        plots=[
            ("Speed of each arm", inline(draw_arms(report), "speed of each arm")),
            ("Speed on each prompt", inline(draw_prompts(report), "speed on each prompt")),
        ],
        grid=arms_grid(report),
        differences=differences(report),
        prompts=_prompts(report),
        facts=_facts(report, command, facts),
    )


def sweep_page(sweep: Sweep, command: str, facts: Json | None = None) -> Page:
    """The page of a sweep; arguments as of `report_page`."""
    last, along = sweep.rounds[-1], "clients" if sweep.axis is BY_CLIENTS else "round trips"
    return Page(
        title=f"Benchmark over {along}",
        identical=sweep.identical,
        verdict=sweep_verdict(sweep),
        plots=[(f"Speed over {along}", inline(draw_sweep(sweep), f"speed over {along}"))],
        grid=sweep_grid(sweep),
        differences=sweep_differences(sweep),
        prompts=_prompts(last),
        facts=_facts(last, command, facts),
    )


def _prompts(report: Report) -> list[str]:
    return [f"{prompt.kind}: {prompt.title}" for prompt in report.prompts]


def _facts(report: Report, command: str, facts: Json | None) -> list[tuple[str, str]]:
    asked = conditions(report, facts)
    named = chain(asked["versions"].items(), asked["machine"].items())
    return [
        ("command", command),
        ("finished", asked["finished"]),
        *((name.replace("_", " "), str(value)) for name, value in named),
    ]
