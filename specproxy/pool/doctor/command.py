"""`specproxy doctor`: examine a pool, say what is wrong and how to mend it."""

import dataclasses
import json
from pathlib import Path

from rich.console import Console

from specproxy.pool.doctor.checks import diagnose
from specproxy.pool.doctor.examined import examine
from specproxy.pool.poolfile import read_pool
from specproxy.progress import Step

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


async def doctor_command(
    path: Path, console: Console, out: Console, *, as_json: bool = False
) -> int:
    """Examine the pool of the file `path`; the exit code is 1 if there is an error.

    Raises:
        ConfigError: the file itself cannot be read.
    """
    pool = read_pool(path)
    with Step(console, f"Examining pool {pool.name}"):
        findings = diagnose(await examine(pool))
    healthy = not any(finding.level == "error" for finding in findings)
    if as_json:
        items = [dataclasses.asdict(finding) for finding in findings]
        out.print_json(json.dumps({"pool": pool.name, "healthy": healthy, "findings": items}))
        return 0 if healthy else 1
    for finding in findings:
        out.print(f"{finding.level:8}", style=_STYLES[finding.level], end="")
        out.print(f"{finding.check}: {finding.text}", markup=False, highlight=False, soft_wrap=True)
        if finding.remedy:
            out.print(f"        {finding.remedy}", markup=False, highlight=False, soft_wrap=True)
    return 0 if healthy else 1
