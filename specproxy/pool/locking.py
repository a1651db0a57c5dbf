"""A lock between processes, so that two set-ups of one user do not do the same work twice."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from specproxy.errors import SetupError


@contextlib.contextmanager
def locked(path: Path, *, what: str, console: Console) -> Iterator[None]:
    """Hold the lock file `path`; say so when somebody else has it, and wait.

    The lock ends with the process, however it ends; the file stays.

    Raises:
        SetupError: its folder cannot be made or written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a", encoding="ascii")
    except OSError as error:
        raise SetupError(
            f"Nothing can be kept in {path.parent}: {error.strerror}.",
            remedy="Set XDG_CACHE_HOME to a folder that you may write to.",
        ) from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"Another process prepares {what}; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
