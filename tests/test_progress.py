"""Steps show themselves on terminals and in log files."""

import io

import pytest
from rich.console import Console

from specproxy import progress
from specproxy.progress import Step


def test_a_log_file_gets_a_line_at_both_ends() -> None:
    file = io.StringIO()
    with Step(Console(file=file, width=80), "Starting [x]") as step:
        step.update("almost")
    first, last = file.getvalue().splitlines()
    assert first == "Starting [x] ..."
    assert last.startswith("Starting [x]: ")


def test_a_long_step_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    file = io.StringIO()
    with Step(Console(file=file, width=80), "Warming") as step:
        step.update("[12/48]")
    assert "Warming (0 s) [12/48]" in file.getvalue()


def test_a_step_that_fails_does_not_claim_its_end() -> None:
    file = io.StringIO()
    with pytest.raises(ValueError), Step(Console(file=file, width=80), "Starting"):
        raise ValueError
    assert file.getvalue().splitlines() == ["Starting ..."]


def test_a_terminal_gets_a_spinner() -> None:
    file = io.StringIO()
    with Step(Console(file=file, force_terminal=True, width=80), "Starting") as step:
        step.update("[worker 1]")
    assert "Starting" in file.getvalue()
    assert step.elapsed_s >= 0
