"""The pool's commands as the command line runs them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

POOLS = Path(__file__).parents[1] / "configs/pools"
CODE = (
    "import typer, sys\n"
    "from specproxy.pool_cli import register\n"
    "from specproxy.errors import SpecproxyError\n"
    "app = typer.Typer(pretty_exceptions_enable=False)\n"
    "register(app)\n"
    "try:\n    app()\n"
    "except SpecproxyError as error:\n    sys.exit(f'error: {error}')\n"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["lan", "nas", "wan"])
def test_plan_prints_the_commands(name: str) -> None:
    ended = run("pool", "plan", str(POOLS / f"{name}.yaml"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("ggml-rpc-server -H ") == 2
    assert "specproxy serve --host 127.0.0.1 --port 8088" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pool", "plan", "/nowhere.yaml"), "cannot be read"),
        (("pool", "down", "/nowhere.yaml"), "cannot be read"),
        (("inspect", "/nowhere.gguf"), "cannot be read"),
        (("inspect", __file__), "is no GGUF file"),
        (("distribute", "/nowhere.gguf", "/tmp"), "There is no /nowhere.gguf"),
        (("distribute", __file__), "no place to copy to"),
        (("distribute", __file__, "/tmp", "--way", "ftp"), "--way ftp does not exist"),
        (("relay", "nonsense"), "is no worker's address"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str) -> None:
    ended = run(*arguments)
    assert ended.returncode
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_pool_that_was_not_started_is_said(tmp_path: Path) -> None:
    ended = run("pool", "down", str(POOLS / "lan.yaml"))
    assert ended.returncode == 0
    assert "was not started from this machine" in ended.stdout


def test_a_relay_says_where_it_listens_and_ends_when_told() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", CODE, "relay", "127.0.0.1:9", "--rtt-ms", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith("-> 127.0.0.1:9\n")
        assert "--rpc 127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stderr == ""
