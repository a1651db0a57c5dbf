"""Answers of a simulated target, seeded as the product seeds: its own seeder, sessions and policy.

Not simulated: HTTP, several answers at once, and that draft and target share cores.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.observed import Observed
from specproxy.core.tasks import spawn, stop
from specproxy.core.worth import N_MATCH, N_MAX
from specproxy.session import Session
from specproxy.settings import SeedingSettings
from specproxy.simulation.clock import run_virtually
from specproxy.simulation.drafter import DraftCost, SimulatedDrafter
from specproxy.simulation.target import Pass, PassModel, SimulatedTarget
from specproxy.simulation.words import Words
from specproxy.target.facts import TargetFacts
from specproxy.testing.ngram_pool import NgramPool
from specproxy.ways.seeding import PoolFacts, SeedingWay

NUM_CONTEXT = 16384
PAUSE_S = 0.5
"""Between answers."""
Said = tuple[Sequence[int], Sequence[int]]
"""Ids of a prompt, and of the target's answer to it."""


@dataclass(frozen=True, slots=True)
class _Heard:
    tokens: Sequence[int]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a workload.

    Attributes:
        speed_up: against the target alone, first tokens of answers not counted.
        passes: that ended after an answer's first token.
        draft_share: of the time in which the draft was at work.
    """

    speed_up: float
    passes: Sequence[Pass]
    draft_share: float

    @property
    def tokens_per_pass(self) -> float:
        return sum(one.num_said for one in self.passes) / max(1, len(self.passes))

    @property
    def rows_per_pass(self) -> float:
        return sum(one.num_rows for one in self.passes) / max(1, len(self.passes))

    @property
    def num_plain(self) -> int:
        """Passes that verified nothing."""
        return sum(not one.num_proposed for one in self.passes)


def simulate(
    words: Words,
    workload: Sequence[Said],
    passes: PassModel,
    *,
    draft: DraftCost | None = None,
    n_match: int = N_MATCH,
    n_max: int = N_MAX,
    settings: SeedingSettings | None = None,
    seed: int = 1,
) -> Outcome:
    """The answers of `workload`, one after the other, as one route learns from all of them.

    Args:
        passes, draft: what time they take.
        n_match, n_max: of the target's pool.
        seed: of the deviation of passes.
    """
    settings = (settings or SeedingSettings()).model_copy(update={"warm": "never"})
    rng = random.Random(seed)

    async def run() -> Outcome:
        target = SimulatedTarget(passes, NgramPool(n_match, 1, n_max), rng)
        drafter = SimulatedDrafter(words, draft or DraftCost())
        way = SeedingWay(
            target,
            drafter,
            settings,
            TargetFacts("simulated", 2, NUM_CONTEXT, len(words.vocabulary), "", ""),
            pool=PoolFacts(n_match, n_max),
            acceptance=AcceptanceModel(),
            observed=Observed(),
            rng=rng,
        )
        seeding = spawn(way.run(lambda: None, _never_idle), name="seeding")
        try:
            return await _answer_all(way, workload, target, drafter, passes.plain_s)
        finally:
            await stop(seeding)
            await drafter.aclose()

    return run_virtually(run())


async def _answer_all(
    way: SeedingWay,
    workload: Sequence[Said],
    target: SimulatedTarget,
    drafter: SimulatedDrafter,
    plain_s: float,
) -> Outcome:
    clock = asyncio.get_running_loop().time
    passes: list[Pass] = []
    num_tokens, spent_s = 0, 0.0
    for prompt, answer in workload:
        begun, heard_s = len(target.passes), list[float]()
        async with _followed(way, prompt) as session:

            def hear(
                token: int, session: Session = session, heard_s: list[float] = heard_s
            ) -> None:
                heard_s.append(clock())
                session.hear(_Heard((token,)))

            await target.say(prompt, answer, hear)
        num_tokens += len(heard_s) - 1
        spent_s += heard_s[-1] - heard_s[0]
        passes += target.passes[begun + 1 :]
        await asyncio.sleep(PAUSE_S)
    return Outcome(num_tokens * plain_s / spent_s, passes, drafter.busy_s / clock())


@asynccontextmanager
async def _followed(way: SeedingWay, prompt: Sequence[int]) -> AsyncIterator[Session]:
    """A session for one answer, speculating meanwhile."""

    async def known() -> Sequence[int]:
        return prompt

    answer = Observed().begin("chat", asyncio.get_running_loop().time())
    session = way.session(answer)
    speculation = spawn(session.speculate(known), name="speculation")
    try:
        yield session
    finally:
        await stop(speculation)


async def _never_idle() -> None:
    await asyncio.Event().wait()
