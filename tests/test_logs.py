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


def test_words_of_clients_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings())
    word = "/\x1b]0;owned\x07\x1b[2J\u202e\x9b\ud800\r"
    structlog.get_logger("ours").warning("no answer", path=word)
    logging.getLogger("theirs").warning("no answer to %s", word)
    try:
        raise RuntimeError(word)
    except RuntimeError:
        structlog.get_logger("ours").exception("it failed")
    shown = capsys.readouterr().err
    assert all(sign.isprintable() or sign == "\n" for sign in shown)
    assert shown.count(r"/\x1b]0;owned\x07\x1b[2J\u202e\x9b\ud800\r") == 3


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_can_be_shown_is_shown(
    form: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogSettings(format=form))
    structlog.get_logger("ours").warning("no answer", path="/modèle")
    shown = capsys.readouterr().err
    assert ("/modèle" if form == "console" else r"/mod\u00e8le") in shown
