"""Waiting for what nobody announces: poll until a condition holds."""

import asyncio
from collections.abc import Callable

POLL_S = 0.002


async def until(condition: Callable[[], object], *, timeout_s: float = 60.0) -> None:
    """Return once `condition` holds.

    Raises:
        TimeoutError: it did not in time.
    """
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(POLL_S)
