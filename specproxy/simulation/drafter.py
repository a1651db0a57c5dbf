"""A draft whose words are given and whose time is a model: so long per step, and per sequence."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from specproxy.core.drafted import DraftToken
from specproxy.core.tasks import spawn, stop
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.protocol import OnToken
from specproxy.simulation.words import Words


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds: of a step, of each sequence in it, of each token of a prompt that is new.

    The defaults are those of the Q4_1 draft of docs/measurements.md, alone on its core.
    """

    step_s: float = 0.0145
    sequence_s: float = 0.0075
    read_s: float = 0.005


@dataclass(eq=False)
class _Job:
    tokens: list[int]
    num_tokens: int
    on_token: OnToken | None
    read_s: float
    done: "asyncio.Future[list[DraftToken]]"
    drafted: list[DraftToken] = field(default_factory=list)


class SimulatedDrafter:
    """Implements `Drafter`: running calls share their steps.

    Attributes:
        busy_s: time in which it drafted.
    """

    alive = True
    can_branch = True

    def __init__(self, words: Words, cost: DraftCost) -> None:
        self.busy_s = 0.0
        self._words = words
        self._cost = cost
        self._jobs: list[_Job] = []
        self._wanted = asyncio.Event()
        self._prompts: set[tuple[int, ...]] = set()
        self._running = spawn(self._run(), name="simulated draft")

    @property
    def vocabulary(self) -> Vocabulary:
        return self._words.vocabulary

    def open(self, num_tokens: int | None = None) -> "SimulatedSequence":
        return SimulatedSequence(self)

    async def aclose(self) -> None:
        await stop(self._running)

    def begin(self, tokens: Sequence[int], num_tokens: int, on_token: OnToken | None) -> _Job:
        """A call, from the next step on."""
        start = tuple(tokens[:24])  # tells prompts apart
        read_s = 0.0 if start in self._prompts else self._cost.read_s * len(tokens)
        self._prompts.add(start)
        done = asyncio.get_running_loop().create_future()
        job = _Job(list(tokens), num_tokens, on_token, read_s, done)
        self._jobs.append(job)
        self._wanted.set()
        return job

    def end(self, job: _Job) -> None:
        """It returns what it has."""
        if job in self._jobs:
            self._jobs.remove(job)
        if not job.done.done():
            job.done.set_result(job.drafted)

    async def _run(self) -> None:
        while True:
            while not self._jobs:
                self._wanted.clear()
                await self._wanted.wait()
            running = list(self._jobs)
            taken_s = self._cost.step_s + self._cost.sequence_s * len(running)
            taken_s += sum(job.read_s for job in running)
            await asyncio.sleep(taken_s)
            self.busy_s += taken_s
            for job in running:
                job.read_s = 0.0
                if job in self._jobs:
                    self._step(job)

    def _step(self, job: _Job) -> None:
        token = self._words.after(job.tokens) if len(job.drafted) < job.num_tokens else None
        if token is None:
            self.end(job)
            return
        job.tokens.append(token.token)
        job.drafted.append(token)
        if job.on_token is not None:
            job.on_token(token)
        if len(job.drafted) == job.num_tokens or self.vocabulary.is_end(token.token):
            self.end(job)


class SimulatedSequence:
    """Implements `DraftSequence`."""

    def __init__(self, drafter: SimulatedDrafter) -> None:
        self._drafter = drafter
        self._job: _Job | None = None

    async def draft(
        self, tokens: Sequence[int], num_tokens: int, *, on_token: OnToken | None = None
    ) -> list[DraftToken]:
        self._job = job = self._drafter.begin(tokens, num_tokens, on_token)
        try:
            return await job.done
        finally:
            self._drafter.end(job)
            self._job = None

    def cut(self) -> None:
        if self._job is not None:
            self._drafter.end(self._job)

    def close(self) -> None:
        self.cut()
