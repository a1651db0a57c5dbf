"""The clock of the scripted target: one task that runs the engine's passes.

Invariant: one pass at a time; tests may hold the clock and step it pass by pass.
"""

import asyncio

from specproxy.core.tasks import spawn
from specproxy.testing.engine import IDLE_MS, Engine, Pass


class PassLoop:
    """Runs passes while there is work.

    Attributes:
        pass_ms: simulated time of a pass.
        token_ms: more time for each token in the batch.
        new_length_ms: more time for a batch of a size not seen before in this process.
    """

    def __init__(self, engine: Engine, *, pass_ms: float, token_ms: float = 0.0) -> None:
        self.engine = engine
        self.pass_ms = pass_ms
        self.token_ms = token_ms
        self.new_length_ms = 0.0
        self._lengths: set[int] = set()
        self._wake = asyncio.Event()
        self._credit: int | None = None
        self._stepped = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), name="scripted-target-passes")

    async def stop(self) -> None:
        """End the loop; raises what went wrong in it, if anything did."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def wake(self) -> None:
        """There is work."""
        self._wake.set()

    def hold(self) -> None:
        """No pass begins until `step` or `go`."""
        self._credit = 0

    def go(self) -> None:
        """Run freely again."""
        self._credit = None
        self.wake()

    async def step(self, num_passes: int = 1) -> None:
        """Let that many passes run and wait until they have; for a held clock."""
        goal = len(self.engine.passes) + num_passes
        self._credit = (self._credit or 0) + num_passes
        self.wake()
        async with self._stepped:
            await self._stepped.wait_for(
                lambda: len(self.engine.passes) >= goal and self._credit == 0
            )

    async def _run(self) -> None:
        while True:
            if self._credit == 0 or not self.engine.has_work:
                self._wake.clear()
                await self._wake.wait()
                continue
            running = self.engine.begin_pass()
            if running is None:
                continue
            duration_ms = self._duration_ms(running)
            await asyncio.sleep(duration_ms / 1e3)
            self.engine.finish_pass(max(duration_ms, IDLE_MS))
            if self._credit:
                self._credit -= 1
            async with self._stepped:
                self._stepped.notify_all()

    def _duration_ms(self, running: Pass) -> float:
        duration_ms = self.pass_ms + self.token_ms * running.num_tokens
        if running.num_tokens not in self._lengths:
            self._lengths.add(running.num_tokens)
            duration_ms += self.new_length_ms
        return duration_ms
