"""The pool's commands as the command line runs them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_lines import tried

POOLS = Path(__file__).parents[1] / "configs/pools"
PLANS = [("pool", "plan", str(POOLS / f"{name}.yaml")) for name in ("lan", "nas", "wan")]
LONG = "/tmp/" + "x" * 300
"""What cannot be looked at, even by root."""
NOT_STARTED = ("pool", "down", str(POOLS / "lan.yaml"))
WRONG: list[tuple[tuple[str, ...], str]] = [
    (("pool", "plan", "/nowhere.yaml"), "There is no pool file /nowhere.yaml"),
    (("pool", "down", "/nowhere.yaml"), "There is no pool file /nowhere.yaml"),
    (("inspect", "/nowhere.gguf"), "cannot be read"),
    (("inspect", __file__), "is no GGUF file"),
    (("distribute", "/nowhere.gguf", "/tmp"), "There is no /nowhere.gguf"),
    (("distribute", LONG, "/tmp"), "cannot be read: File name too long"),
    (("distribute", __file__), "no place to copy to"),
    (("distribute", __file__, "/tmp", "--way", "ftp"), "--way ftp does not exist"),
    (("relay", "nonsense"), "is no worker's address"),
    (("relay", "127.0.0.1:8", "127.0.0.1:9", "--port", "65535"), "there are not 2 ports"),
]


@pytest.mark.parametrize("line", PLANS, ids=lambda line: Path(line[-1]).stem)
def test_plan_prints_the_commands(line: tuple[str, ...]) -> None:
    plan = tried(*line)
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.count("ggml-rpc-server -H ") == 2
    assert "specproxy serve --host 127.0.0.1 --port 8088" in plan.stdout


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_what_is_wrong_is_said(line: tuple[str, ...], said: str) -> None:
    ended = tried(*line)
    assert ended.returncode
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_pool_that_was_not_started_is_said() -> None:
    ended = tried(*NOT_STARTED)
    assert ended.returncode == 0
    assert "was not started from this machine" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ignored", ["", "INT"])
def test_a_relay_says_where_it_listens_and_ends_when_told(
    number: signal.Signals, ignored: str
) -> None:
    """Also where SIGINT is ignored, as shells have it for what runs in the background."""
    shell = ["/bin/sh", "-c", f"trap '' {ignored}; exec \"$@\"" if ignored else 'exec "$@"', "sh"]
    relay = [sys.executable, "-u", "-m", "specproxy.cli", "relay", "127.0.0.1:9", "--rtt-ms", "5"]
    with subprocess.Popen(
        [*shell, *relay], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith("-> 127.0.0.1:9\n")
        assert "--rpc 127.0.0.1:" in process.stdout.readline()
        process.send_signal(number)
        try:
            _, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert stderr == ""
