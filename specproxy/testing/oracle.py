"""A second target of the same language, to ask directly. It starts with the first question to it,
for most tests have none."""

import asyncio
from typing import Self

from specproxy.testing.target import ScriptedTarget


class Oracle:
    """Use as an async context manager; what was started ends with it.

    Args:
        target: not yet entered.
    """

    def __init__(self, target: ScriptedTarget) -> None:
        self._target = target
        self._starting = asyncio.Lock()
        self._is_started = False

    def __repr__(self) -> str:
        return f"<Oracle {self._target!r} {'started' if self._is_started else 'not started'}>"

    async def url(self) -> str:
        """Where it listens, now if not before."""
        async with self._starting:
            if not self._is_started:
                await self._target.__aenter__()
                self._is_started = True
        return self._target.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._is_started:
            await self._target.__aexit__(None, None, None)
