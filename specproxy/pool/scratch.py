"""Folders for a pool's logs, which do not pile up.

Invariant: a folder whose process is gone is removed by the next pool, if not by its own.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "specproxy-pool-"


def scratch_folder() -> Path:
    """A new empty folder of this process; those of dead processes are swept away."""
    parent = Path(tempfile.gettempdir())
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(PermissionError):  # somebody else's process
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
