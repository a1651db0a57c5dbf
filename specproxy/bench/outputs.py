"""The files a benchmark leaves: JSON, a plot, a page."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specproxy.bench.export import to_json
from specproxy.bench.machine import Json
from specproxy.bench.page import Page, report_page, sweep_page
from specproxy.bench.plot import check_matplotlib, check_plot, draw_arms, draw_sweep, save
from specproxy.bench.report import Report
from specproxy.bench.sweep import Sweep, sweep_json
from specproxy.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where to; None writes no such file."""

    json: Path | None = None
    plot: Path | None = None
    page: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """Of all that is written."""
        return [path for path in (self.json, self.plot, self.page) if path is not None]

    def check(self) -> None:
        """Minutes of measuring must not end in a file that cannot be written.

        Raises:
            ConfigError: which, and why.
        """
        if self.plot is not None:
            check_plot(self.plot)
        if self.page is not None:
            check_matplotlib()
        for path in self.paths:
            _check_writable(path)

    def write_report(self, report: Report, command: str) -> None:
        """Args:
        command: that measured it.
        """
        self._write(
            lambda: {"command": command, **to_json(report)},
            lambda: draw_arms(report),
            lambda: report_page(report, command),
        )

    def write_sweep(self, sweep: Sweep, command: str) -> None:
        """Args:
        command: that measured it.
        """
        self._write(
            lambda: {"command": command, **sweep_json(sweep)},
            lambda: draw_sweep(sweep),
            lambda: sweep_page(sweep, command),
        )

    def _write(
        self, values: Callable[[], Json], figure: Callable[[], "Figure"], page: Callable[[], Page]
    ) -> None:
        if self.json is not None:
            self.json.write_text(json.dumps(values(), indent=1) + "\n", encoding="utf-8")
        if self.plot is not None:
            save(figure(), self.plot)
        if self.page is not None:
            self.page.write_text(page().html(), encoding="utf-8")


def _check_writable(path: Path) -> None:
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", remedy="Give it another path."
        ) from error
