"""Packages by pip: downloads of one archive, and tools installed beside this interpreter."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from specproxy.errors import SetupError


def download(requirement: str, folder: Path, *, binary: bool) -> Path:
    """Download one package without its dependencies; the path of its archive.

    Args:
        requirement: `name==version`.
        binary: its wheel; False takes its source archive, and only its own: with
            `--no-binary :all:` pip would compile the build tools from source as well.

    Raises:
        SetupError: pip failed.
    """
    name = requirement.partition("==")[0]
    choice = ["--only-binary", ":all:"] if binary else ["--no-binary", name]
    before = set(folder.iterdir())
    _pip("download", "--no-deps", *choice, "--dest", str(folder), requirement)
    new = [path for path in folder.iterdir() if path not in before]
    if len(new) != 1:
        raise SetupError(f"pip downloaded {len(new)} files for {requirement}, not one.")
    return new[0]


def install(*requirements: str) -> Path:
    """Install packages into this interpreter's environment; the folder of their scripts.

    Raises:
        SetupError: pip failed.
    """
    _pip("install", *requirements)
    return Path(sysconfig.get_path("scripts"))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise SetupError(
            f"pip {' '.join(arguments)} failed:\n{tail}\n",
            remedy="Check the network, or pip's settings (`pip config list`).",
        )
