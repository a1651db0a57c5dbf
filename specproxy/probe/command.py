"""`specproxy probe`: measure a target, say what it is."""

import json
import random

from rich.console import Console

from specproxy.probe.measure import measure
from specproxy.probe.table import as_json, as_table
from specproxy.progress import Step
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient


async def probe_command(
    settings: TargetSettings, console: Console, out: Console, *, json_output: bool = False
) -> int:
    """Probe the target of `settings`; the exit code is 0 if it could be probed.

    Raises:
        TargetError: it could not.
    """
    with Step(console, f"Probing {settings.url}") as step:
        async with TargetClient(settings) as client:
            report = await measure(
                client, settings.url, random.Random(), lambda what: step.update(f"[{what}]")
            )
    if json_output:
        out.print_json(json.dumps(as_json(report)))
    else:
        out.print(as_table(report), crop=False)  # the command is longer than terminals are wide
    return 0
