"""Runs a command that dies with its parent: `python -I -S tether.py PARENT_PID COMMAND...`.

Started by `pool.processes` between fork and exec, as a program of its own: what runs in a forked
copy of a threaded parent may hang, what runs here may not.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's death, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
