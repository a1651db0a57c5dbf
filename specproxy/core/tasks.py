"""Tasks with a name and a keeper: the linter bans the raw call."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Run `coroutine` as a task that cannot be collected while it runs."""
    task = asyncio.create_task(coroutine, name=name)  # noqa: TID251
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def stop(task: asyncio.Task[Any], *, again_s: float = 1.0) -> None:
    """Cancel `task` and wait until it is gone, whatever it raised on the way out.

    Asks again while it lives, every `again_s`: Python 3.11's `wait_for` can swallow one
    cancellation.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=again_s)
