"""The Dockerfile, as far as it can be checked without an engine: what it copies, runs and opens."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from specproxy.settings import ListenSettings
from tests.command_lines import tried

ROOT = Path(__file__).parent.parent
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and line[0] != "#"]


def said(instruction: str) -> list[str]:
    return [rest for name, rest in LINES if name == instruction]


def test_what_it_copies_is_there_and_reaches_the_engine() -> None:
    sources = [item.split()[0] for item in said("COPY") if not item.startswith("--from")]
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignore[0] == "*"
    assert sorted(f"!{source.removeprefix('./')}" for source in sources) == sorted(
        line for line in ignore if line[0] == "!"
    )
    assert all((ROOT / source).exists() for source in sources)


def test_its_dependencies_are_the_projects() -> None:
    """The snippet that lists them for pip."""
    (snippet,) = re.findall(r'python -c "(import tomllib.*?)" >', TEXT)
    listed = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert listed == project["dependencies"]


def test_its_command_is_one_that_specproxy_knows() -> None:
    (entry,), (command,) = said("ENTRYPOINT"), said("CMD")
    assert json.loads(entry) == ["specproxy"]
    ended = tried(*json.loads(command))
    assert ended.returncode == 2  # no such file here; but every flag was understood
    assert "There is no settings file /etc/specproxy/config.yaml" in ended.stderr


def test_its_port_is_the_default_one_and_its_user_is_not_root() -> None:
    (port,), (health,) = said("EXPOSE"), said("HEALTHCHECK")
    assert int(port) == ListenSettings().port
    assert f"('127.0.0.1', {port})" in health
    assert said("USER") == ["specproxy"]
    assert [item.split()[0] for item in said("FROM")] == ["python:3.11-slim"] * 2


def test_it_can_keep_what_it_learns() -> None:
    variables = dict(item.split("=", 1) for each in said("ENV")[1:] for item in each.split())
    folder = f"{variables['XDG_CACHE_HOME']}/specproxy"
    assert any(f"install -d -o specproxy {folder}" in each for each in said("RUN"))
