"""The draft of a demo benchmark: in the proxies, and in the servers that have one of their own."""

import os
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from specproxy.bench.pools import DemoParts
from specproxy.errors import ConfigError
from specproxy.pool.models import ensure_random_draft

RANDOM = "random"
"""Random weights, the same vocabulary and size: never right."""
DEAR = ("dear", "target")
"""The target's own model: always right, and a block of it costs about what a pass costs."""


def with_draft(parts: DemoParts, choice: str | None, console: Console) -> DemoParts:
    """The same parts with another draft. Blocks.

    Args:
        choice: one of the names above, or a GGUF's path; None: the demo's own draft.

    Raises:
        ConfigError: there is no such file.
        SetupError: the draft could not be written.
    """
    if choice is None:
        return parts
    if choice == RANDOM:
        draft = ensure_random_draft(parts.models, console=console)
    elif choice in DEAR:
        draft = parts.models.target
    else:
        check_draft(choice)
        draft = Path(choice)
    return replace(parts, models=replace(parts.models, draft=draft))


def check_draft(choice: str | None) -> None:
    """Find out what cannot be before anything is built.

    Raises:
        ConfigError: it is neither a name nor a file.
    """
    if choice is None or choice in (RANDOM, *DEAR) or os.path.isfile(choice):
        return
    raise ConfigError(
        f"--draft {choice} does not exist.",
        remedy=f"Give a GGUF's path, or {', '.join((RANDOM, *DEAR))} with --demo.",
    )
