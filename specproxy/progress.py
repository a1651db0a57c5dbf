"""Long steps, shown: a spinner on a terminal, plain lines in a log file."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

PLAIN_INTERVAL_S = 20.0
"""Where there is no terminal, a step says that often that it still runs."""


class Step:
    """One long step on a console; use as a context manager.

    Args:
        title: what is done, as "Starting llama-server".
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._status: Status | None = None
        self._started_s = self._said_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started_s

    def __enter__(self) -> Self:
        self._started_s = self._said_s = time.monotonic()
        if self._console.is_terminal:
            self._status = self._console.status(f"{escape(self._title)} ...")
            self._status.start()
        else:
            self._say(f"{self._title} ...")
        return self

    def update(self, detail: str = "") -> None:
        """Show how far it is; as often as one likes."""
        text = f"{self._title} ({self.elapsed_s:.0f} s) {detail}".rstrip()
        if self._status is not None:
            self._status.update(f"{escape(text)} ...")
        elif time.monotonic() - self._said_s >= PLAIN_INTERVAL_S:
            self._said_s = time.monotonic()
            self._say(text)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
        if kind is None:
            self._say(f"{self._title}: {self.elapsed_s:.1f} s")

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)
