"""Programs that speak to the proxy, each in an environment of its own outside the checkout.

Invariant: a folder with its stamp is complete. What lacks one is made anew, by one process at a
time.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specproxy.llama.location import cache_folder
from specproxy.pool.locking import locked

STAMP = ".installed"
INSTALL_TIMEOUT_S = 900.0
SCRIPTS = Path(__file__).parent / "scripts"
NETWORK_WORDS = (
    *("temporary failure in name resolution", "failed to resolve", "name or service not known"),
    *("network is unreachable", "failed to establish a new connection", "connection timed out"),
    *("connect timeout", "read timed out", "no route to host", "proxyerror", "newconnectionerror"),
    *("enotfound", "eai_again", "econnrefused", "etimedout", "enetunreach", "ehostunreach"),
)
"""What pip and npm say when nothing answers them."""


class NoNetworkError(Exception):
    """An environment is missing, and what belongs into it cannot be fetched."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Pinned packages of pip (in a virtual environment) or of npm.

    Attributes:
        script: the program below scripts/ that uses them; it says by its suffix whose they are.
        packages: with their versions, as the installer wants them; the first is the client.
    """

    script: str
    packages: tuple[str, ...]

    def __str__(self) -> str:
        return self.script

    @property
    def folder(self) -> Path:
        name, version = re.split(r"(?:\[.*\])?(?:==|@)", self.packages[0])
        language = "npm" if self.is_node else f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return cache_folder() / "clients" / f"{name}-{version}-{language}"

    @property
    def is_node(self) -> bool:
        return self.script.endswith(".mjs")

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def command(self, *arguments: str) -> list[str]:
        """The script with these arguments."""
        if self.is_node:  # it resolves packages from where the script lies
            return ["node", str(self.folder / self.script), *arguments]
        return [str(self.python), "-E", "-s", "-B", str(SCRIPTS / self.script), *arguments]

    def install(self) -> None:
        """Make the environment unless it is there.

        Raises:
            NoNetworkError: the packages cannot be fetched.
            subprocess.CalledProcessError: anything else went wrong; its output is a note.
        """
        console = Console(stderr=True)
        lock = self.folder.with_name(f"{self.folder.name}.lock")
        with locked(lock, what=str(self.folder), console=console):
            if not (self.folder / STAMP).exists():
                shutil.rmtree(self.folder, ignore_errors=True)
                self._fill()
                (self.folder / STAMP).touch()
            if self.is_node:
                shutil.copy(SCRIPTS / self.script, self.folder)

    def _fill(self) -> None:
        if self.is_node:
            self.folder.mkdir(parents=True)
            run(["npm", "install", "--no-audit", "--no-fund", *self.packages], self.folder)
            return
        run([sys.executable, "-m", "venv", str(self.folder)], self.folder.parent)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, *self.packages], self.folder)


def run(command: Sequence[str], folder: Path) -> None:
    """A step of an installation.

    Raises:
        NoNetworkError: nothing answered it.
        subprocess.CalledProcessError: it failed otherwise.
    """
    ended = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if ended.returncode == 0:
        return
    said = ended.stdout + ended.stderr
    if any(word in said.lower() for word in NETWORK_WORDS):
        raise NoNetworkError(f"{command[0]} found no network: {said[-500:]}")
    error = subprocess.CalledProcessError(ended.returncode, command)
    error.add_note(said[-4000:])
    raise error


OPENAI = Environment("openai_sdk.py", ("openai==3.57.0",))
ANTHROPIC = Environment("anthropic_sdk.py", ("anthropic==2.14.0",))
LITELLM = Environment("litellm_sdk.py", ("litellm==1.110.2",))
LANGCHAIN = Environment("langchain_chat.py", ("langchain-openai==1.7.4",))
LLM = Environment("llm_command.py", ("llm==0.36",))
AGENTS = Environment("openai_agents.py", ("openai-agents==0.24.0",))
PYDANTIC_AI = Environment("pydantic_agent.py", ("pydantic-ai-slim[openai]==2.68.0",))
OPENAI_JS = Environment("openai_sdk.mjs", ("openai@7.59.0",))
ALL = (OPENAI, ANTHROPIC, LITELLM, LANGCHAIN, LLM, AGENTS, PYDANTIC_AI, OPENAI_JS)
