"""Command lines tried one after the other in one process: to start one each would cost most.

What a process of its own would show (its exit code, what it prints where) is the same, as every
command ends in `main`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CODE = """
import contextlib, io, json, os, sys, traceback
from specproxy.cli import main

ended = []
for arguments, variables in json.load(sys.stdin):
    sys.argv = ["specproxy", *arguments]
    os.environ.clear()
    os.environ.update(variables)
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = 1
            traceback.print_exc()
    ended.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


@dataclass(frozen=True)
class Ended:
    """What a command line came to."""

    returncode: int
    stdout: str
    stderr: str


def environment(**variables: str) -> dict[str, str]:
    """Ours, but with these settings alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECPROXY_")}
    return {**kept, **variables, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def tried(lines: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[Ended]:
    """Try each line: its arguments, and variables of the environment."""
    told = [(list(arguments), environment(**variables)) for arguments, variables in lines]
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [Ended(*each) for each in json.loads(done.stdout)]
