"""Command lines tried in this process: to start one for each would cost most.

What a process of its own would show (its exit code, what it prints where) is the same, as every
command ends in `main`; test_cli.py tries one of each kind in a process, too.
"""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

import structlog

from specproxy.cli import main


@dataclass(frozen=True)
class Ended:
    """What a command line came to."""

    returncode: object
    stdout: str
    stderr: str


def environment(**variables: str) -> dict[str, str]:
    """Ours, but with these settings alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECPROXY_")}
    return {**kept, **variables, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def tried(*arguments: str, **variables: str) -> Ended:
    """Try a line: its arguments, and variables of the environment.

    Raises:
        Exception: what would be a traceback.
    """
    out, err, code = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["specproxy", *arguments]),
        mock.patch.dict(os.environ, environment(**variables), clear=True),
        _log_as_before(),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Ended(code or 0, out.getvalue(), err.getvalue())


@contextmanager
def _log_as_before() -> Iterator[None]:
    """What a command sets up goes to a stream that nobody reads later."""
    root = logging.getLogger()
    before, handlers, level = structlog.get_config(), root.handlers[:], root.level
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)
