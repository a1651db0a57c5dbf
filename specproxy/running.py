"""A coroutine run until its end, or until the process is told to stop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_told(work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run `work` to its end; SIGINT and SIGTERM cancel it, and what it holds is given back.

    A second signal cancels again: what drains then ends at once.

    Returns:
        Its result, or 128 plus the signal's number.
    """

    async def until_told() -> int:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        caught: list[int] = []

        def tell(number: int) -> None:
            task.cancel()
            caught.append(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, tell, number)
        try:
            return await work() or 0
        except asyncio.CancelledError:
            if not caught:
                raise
            return 128 + caught[0]

    return asyncio.run(until_told())
