"""The command line as its users meet it: processes, exit codes, signals."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import specproxy
from tests.command_lines import Ended, environment, tried

COMMAND = (sys.executable, "-m", "specproxy.cli")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**variables),
        check=False,
    )


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`specproxy serve` and the URL it prints; killed at the end if it still runs."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("specproxy listens on http://"), process.communicate()
        yield process, line.split()[-1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_version() -> None:
    ended = run("--version")
    assert (ended.returncode, ended.stdout) == (0, f"specproxy {specproxy.__version__}\n")


def test_help_names_the_commands() -> None:
    ended = tried("--help")
    assert ended.returncode == 0
    assert all(name in ended.stdout for name in ("serve", "demo", "bench"))


WRONG: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (("serve", "--config", "/nowhere.yaml"), {}, "There is no settings file /nowhere.yaml"),
    (("serve",), {"SPECPROXY_DRAFT__MODEL": "/nowhere.gguf"}, "no file /nowhere.gguf"),
    (("serve",), {"SPECPROXY_LISTEN__PROT": "1"}, "listen.prot: no such key"),
    (("serve", "--host", "0.0.0.0"), {}, "listen.api_key is not set"),
    (("bench",), {}, "Give --demo"),
    (("bench", "--demo", "--mode", "turbo"), {}, "--mode turbo does not exist"),
    (("bench", "--demo", "--mode", "cordinator"), {}, "What exists: seeding, "),
    (("bench", "--demo", "--mode", "magic"), {}, "--mode magic does not exist"),
    (("bench", "--demo", "--draft-n", "0,8"), {}, "--draft-n 0,8 is no list"),
    (("bench", "--bars", "rtt80,rtt7"), {}, "--bars rtt7 does not exist"),
    (("bench", "--demo", "--bars", "all"), {}, "There are four things to measure"),
    (("bench", "--demo", "--draft", "/nowhere.gguf"), {}, "--draft /nowhere.gguf does not exist"),
    (("bench", "--bars", "all", "--draft", "random"), {}, "--draft is for --demo"),
    (("bench", "--target", "http://127.0.0.1:1"), {}, "--target needs --draft"),
    (
        ("bench", "--target", "http://127.0.0.1:1", "--draft", __file__, "--front-rtt-ms", "9"),
        {},
        "Use --demo",
    ),
    (("bench", "--demo", "--groups", "9"), {}, "--groups 9 is no list of numbers from 1 to 8"),
    (("bench", "--demo", "--prompts", "999"), {}, "prompts, not 999"),
    (("bench", "--demo", "--json", "/nowhere/x.json"), {}, "cannot be written"),
    (("demo", "--prompts", "999"), {}, "prompts, not 999"),
]


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [pytest.param(*wrong, id=" ".join(wrong[0])) for wrong in WRONG],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    check_wrong(tried(*arguments, **variables), said)


def test_a_process_of_its_own_says_so_too() -> None:
    check_wrong(run("serve", "--config", "/nowhere.yaml"), "no settings file /nowhere.yaml")


def check_wrong(ended: Ended | subprocess.CompletedProcess[str], said: str) -> None:
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("specproxy: error: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr


def test_a_draft_model_that_is_none_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, or not")
    ended = run("serve", "--port", "0", SPECPROXY_DRAFT__MODEL=str(broken))
    assert ended.returncode == 2
    assert "specproxy: error: " in ended.stderr
    assert "broken.gguf" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--port", str(port))
    assert ended.returncode == 2
    assert f"Another program listens on 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_cleanly_when_told(number: signal.Signals) -> None:
    with serving("--port", "0") as (process, url):
        with urllib.request.urlopen(f"{url}/specproxy/status", timeout=10) as reply:
            (route,) = json.load(reply)["routes"]
        assert route["draft_alive"] is False
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in stderr
        assert "No draft model is configured" in stderr


def test_a_file_is_overridden_by_flags(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("route: mine\nlisten: {host: 127.0.0.2, port: 9}\n", encoding="utf-8")
    with (
        serving("--config", str(config), "--port", "0") as (_, url),
        urllib.request.urlopen(f"{url}/specproxy/status", timeout=10) as reply,
    ):
        assert url.startswith("http://127.0.0.2:")
        assert json.load(reply)["routes"][0]["name"] == "mine"


@pytest.mark.real
def test_serve_with_a_draft_ends_cleanly(demo_models: object) -> None:
    draft = str(getattr(demo_models, "draft"))  # noqa: B009
    with serving("--port", "0", SPECPROXY_DRAFT__MODEL=draft) as (process, url):
        with urllib.request.urlopen(f"{url}/specproxy/status", timeout=10) as reply:
            assert json.load(reply)["routes"][0]["draft_alive"] is True
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Loading the draft model" in stderr


def children_of(pid: int) -> list[int]:
    """Processes whose parent is `pid` (Linux)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(
    number: signal.Signals, demo_models: object, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "--rtt-ms", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
    )
    try:
        children: list[int] = []
        while len(children) < 3 and process.poll() is None:
            time.sleep(0.05)
            children = children_of(process.pid)
        assert process.poll() is None, process.communicate()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 128 + number
    assert "Traceback" not in stderr
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.glob("specproxy-*")) == []
