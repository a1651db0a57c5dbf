"""What the event loop holds of an answer that a group's thread generates."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

from specproxy.coordinator.generation import Step
from specproxy.coordinator.inbox import End, Grow, Inbox
from specproxy.core.drafts import GrownNode


class Stream:
    """Implements `generation.Generation` for the loop and `answer.Outlet` for the thread.

    Invariant: the thread's methods only schedule calls on the loop, in order; everything else is
    the loop's.
    """

    def __init__(self, key: int, inbox: Inbox, on_end: Callable[[], None]) -> None:
        """
        Args:
            on_end: called once, on the loop: the answer is over or nobody wants it.
        """
        self.key = key
        self.num_cached = 0
        self.prompt_s = 0.0
        self._inbox = inbox
        self._on_end: Callable[[], None] | None = on_end
        self._loop = asyncio.get_running_loop()
        self._steps: deque[Step | Exception] = deque()
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        state = "ended" if self._on_end is None else "running"
        return f"<Stream {self.key} {state}, {len(self._steps)} steps to read>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        while not self._steps:
            if self._on_end is None:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        step = self._steps.popleft()
        if isinstance(step, Exception):
            raise step
        return step

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        if self._on_end is not None:
            self._inbox.put(Grow(self.key, nodes, go_at))

    def close(self) -> None:
        if self._on_end is not None:
            self._inbox.put(End(self.key))
            self._end()
        self._steps.clear()

    def begin(self, num_cached: int, prompt_s: float) -> None:
        self._call(self._begin, num_cached, prompt_s)

    def emit(self, step: Step) -> None:
        self._call(self._take, step, step.finish is not None)

    def fail(self, error: Exception) -> None:
        self._call(self._take, error, True)

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _begin(self, num_cached: int, prompt_s: float) -> None:
        self.num_cached, self.prompt_s = num_cached, prompt_s

    def _take(self, step: Step | Exception, is_last: bool) -> None:
        if self._on_end is None:
            return
        self._steps.append(step)
        self._news.set()
        if is_last:
            self._end()

    def _end(self) -> None:
        if self._on_end is not None:
            self._on_end()
        self._on_end = None
        self._news.set()
