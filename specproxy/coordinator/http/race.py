"""The results of several answers in the order in which they come.

Invariant: after the context no task of it runs, whatever was still in flight.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Self

from specproxy.coordinator.http.answer import Answer, Result
from specproxy.core.tasks import spawn, stop

_MAX_WAITING = 64
"""Results that may wait for a slow client; then its generations wait, too."""

Found = tuple[Answer, Result]


class Race:
    """Runs the answers while the context lasts."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self._found: asyncio.Queue[Found | Exception | None] = asyncio.Queue(_MAX_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._num_open = len(answers)

    async def __aenter__(self) -> Self:
        self._tasks = [
            spawn(self._run(answer), name=f"answer {answer.index}") for answer in self._answers
        ]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            await stop(task)

    async def next(self, timeout_s: float | None = None) -> Found | None:
        """The next result; None: there is none any more.

        Raises:
            TimeoutError: nothing came for so long.
            CoordinatorError: an answer failed.
        """
        while self._num_open:
            async with asyncio.timeout(timeout_s):
                found = await self._found.get()
            if isinstance(found, Exception):
                raise found
            if found is not None:
                return found
            self._num_open -= 1
        return None

    async def _run(self, answer: Answer) -> None:
        try:
            async with aclosing(answer.results()) as results:
                async for result in results:
                    await self._found.put((answer, result))
        except Exception as error:
            await self._found.put(error)
        else:
            await self._found.put(None)
