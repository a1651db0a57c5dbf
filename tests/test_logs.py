"""What the log shows of failures: where, and never what was being handled."""

import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from specproxy.logs import configure
from specproxy.settings import LogSettings


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def fail(key: str) -> None:
    raise RuntimeError(f"a key of {len(key)} characters did not fit")


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_shows_no_values(
    form: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogSettings(format=form))
    for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        try:
            fail("CAN" + "ARY")
        except RuntimeError:
            log.exception("it failed")
    shown = capsys.readouterr().err
    assert shown.count("it failed") == 2
    assert shown.count("a key of 6 characters") == 2
    assert "CANARY" not in shown
