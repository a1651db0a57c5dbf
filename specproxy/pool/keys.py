"""The keys of a pool's coordinator and proxy, and which of its processes must be told which.

Keys are in the environment or in a file, never in the pool's file or in a command line.
"""

import os
from pathlib import Path

from specproxy.pool.commands import Command
from specproxy.pool.poolfile import PoolFile, is_local

COORDINATOR_VARIABLE = "SPECPROXY_TARGET__API_KEY"
"""The coordinator's key, as the proxy is told it."""
CLIENTS_VARIABLE = "SPECPROXY_LISTEN__API_KEY"
"""What a process asks of its own clients: the proxy, and a coordinator of our own."""


def coordinator_key(pool: PoolFile) -> str | None:
    """The coordinator's key: from the environment, else from its file where that is here, else,
    if it is our own and `up` starts it, the one for the proxy's clients."""
    section = pool.coordinator
    said = os.environ.get(COORDINATOR_VARIABLE)
    if not said and section.api_key_file is not None:
        said = _first_word(section.api_key_file)
    if not said and section.kind == "specproxy" and (section.ssh or is_local(section.host)):
        said = clients_key()
    return said or None


def clients_key() -> str | None:
    """The key of the proxy's clients, from the environment."""
    return os.environ.get(CLIENTS_VARIABLE) or None


def key_variables(pool: PoolFile, command: Command) -> dict[str, str]:
    """What a process must be told: our own coordinator asks for the coordinator's key, the proxy
    gives it."""
    key = coordinator_key(pool)
    if key is None:
        return {}
    if command.role == "proxy":
        return {COORDINATOR_VARIABLE: key}
    if command.role == "coordinator" and pool.coordinator.kind == "specproxy":
        return {CLIENTS_VARIABLE: key}
    return {}


def _first_word(path: Path) -> str | None:
    try:
        return next(iter(path.read_text(encoding="utf-8").split()), None)
    except (OSError, ValueError):
        return None
