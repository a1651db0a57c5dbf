"""A coroutine run until its end, or until the process is told to stop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

Work = Callable[[], Coroutine[Any, Any, int | None]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run_until_told(work: Work, *, loop_factory: LoopFactory | None = None) -> int:
    """Run `work` to its end; SIGINT and SIGTERM cancel it, and what it holds is given back.

    A second signal cancels again: what drains then ends at once. Who started us may have had SIGINT
    ignored, as shells do for what runs in the background; it is heeded all the same.

    Args:
        loop_factory: makes the loop; None: asyncio's own.

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

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(until_told())


def serve_until_told(work: Work, *, loop_factory: LoopFactory | None = None) -> int:
    """As `run_until_told`; being told to stop is how a server ends, and no failure: 0."""
    code = run_until_told(work, loop_factory=loop_factory)
    return 0 if code in (128 + signal.SIGINT, 128 + signal.SIGTERM) else code
