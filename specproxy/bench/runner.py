"""Runs a benchmark: warm up, measure, judge.

Invariant: while something is measured one arm runs at a time, with one request or with as many
as there are clients; no prompt is asked twice of a server that learns; the arms are asked in turn
and in a rotating order, so that what the machine does meanwhile hits all alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from specproxy.bench.answers import ask
from specproxy.bench.arms import Arm
from specproxy.bench.counted import ProxyCounts
from specproxy.bench.equality import TIE_MARGIN
from specproxy.bench.judge import Judge, Verdict
from specproxy.bench.references import References
from specproxy.bench.rehearsal import rehearse
from specproxy.bench.stats import (
    Answer,
    Portion,
    Summary,
    decoding,
    speed,
    summarise,
    throughput,
)
from specproxy.bench.warm import WarmUp, warm_up
from specproxy.bench.workloads import COLD, Prompt, shares
from specproxy.core.tally import Tally

_COUNTS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to measure.

    Attributes:
        num_tokens: limit of each answer, the same for all arms.
        tie_margin: see `equality`.
        pause_s: between requests, so that what an arm still does for its last answer is over.
        num_clients: requests at a time; they begin together, and the next ones when all are done.
        throughput: compare arms by what all clients get together, prompts included; None: where
            there are several.
        cold: ask each arm once before anything is warmed.
        sharing: what the arms have in common; see `Sharing`.
    """

    num_tokens: int = 96
    tie_margin: float = TIE_MARGIN
    pause_s: float = 0.5
    num_clients: int = 1
    throughput: bool | None = None
    cold: bool = False
    sharing: "Sharing" = "nothing"

    @property
    def by_throughput(self) -> bool:
        return self.num_clients > 1 if self.throughput is None else self.throughput

    @property
    def paired(self) -> bool:
        """Whether all arms answer the same prompts."""
        return self.sharing != "learning server"

    @property
    def fields(self) -> dict[str, bool]:
        """Of each request: where a server is asked the same prompt twice, it must not find what
        it read before."""
        return {"cache_prompt": False} if self.sharing == "server" else {}


Sharing = Literal["nothing", "server", "learning server"]
"""Whether each arm has a server of its own, or all have one: one that forgets an answer, so that
it can be asked the same prompts for each arm, or one that learns them, so that each arm gets
prompts of its own."""


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm, measured and judged.

    Attributes:
        prompts: those it was asked.
        answers, verdicts: one for each prompt, in order.
        proxy_counts: what the proxy counted for these answers; empty without a proxy.
        cold: the first answer after its start; None if it was not asked for.
        tally: tokens by origin and seconds by phase, as the proxy saw them; None without one.
    """

    arm: Arm
    prompts: tuple[Prompt, ...]
    answers: tuple[Answer, ...]
    verdicts: tuple[Verdict, ...]
    warm_up: WarmUp
    proxy_counts: Mapping[str, int]
    options: BenchOptions = field(default_factory=BenchOptions)
    cold: Answer | None = None
    tally: Tally | None = None

    @property
    def portions(self) -> list[Portion]:
        """What `tokens_per_s` is made of."""
        if self.options.by_throughput:
            return throughput(self.answers, self.options.num_clients)
        return decoding(self.answers)

    @property
    def tokens_per_s(self) -> float | None:
        """What arms are compared by: the speed of decoding, or the throughput of all clients,
        prompts included."""
        return speed(self.portions)

    @property
    def summary(self) -> Summary:
        return summarise(self.answers)

    @property
    def identical(self) -> bool:
        """Whether every answer is the target's own, near-ties apart."""
        return all(verdict.identical for verdict in self.verdicts)

    @property
    def num_ties(self) -> int:
        return sum(len(verdict.ties) for verdict in self.verdicts)


class Watch:
    """Told what goes on; for those who show it. Does nothing itself."""

    def recording(self) -> None:
        """What a recorded draft says is being recorded."""

    def warming(self) -> None:
        """All arms are being warmed."""

    def asking(self, arm: Arm, prompt: Prompt, index: int) -> None:
        """The prompt of that index is being asked."""

    def text(self, piece: str) -> None:
        """The running answer goes on."""

    def answered(self, arm: Arm, answer: Answer) -> None:
        """It is complete."""

    def judging(self) -> None:
        """Answers are being compared."""


async def run(
    arms: Sequence[Arm],
    prompts: Sequence[Prompt],
    options: BenchOptions | None = None,
    watch: Watch | None = None,
    *,
    set_link: Callable[[], Awaitable[None]] | None = None,
) -> list[ArmResult]:
    """Measure `arms`. The first must be the target alone: it is what the others must equal.

    Args:
        set_link: see `warm_up`.

    Raises:
        TargetError: an arm failed.
    """
    options, watch = options or BenchOptions(), watch or Watch()
    assert arms[0].name == "target", "the first arm is the reference"
    watch.warming()
    cold = [await _first_answer(arm, options) for arm in arms] if options.cold else []
    if any(arm.recorded is not None for arm in arms):
        watch.recording()
        await rehearse(arms, prompts, options.num_tokens)
        watch.warming()
    warmed = await warm_up(arms, prompts, num_tokens=options.num_tokens, set_link=set_link)
    before = [await arm.proxy_counts() for arm in arms]
    asked = [tuple(prompts)] * len(arms)
    if not options.paired:
        asked = [tuple(share) for share in shares(prompts, len(arms))]
    answers = await _measure(arms, asked, options, watch)
    counts = [
        await _counted(arm, so_far, len(mine))
        for arm, so_far, mine in zip(arms, before, asked, strict=True)
    ]
    watch.judging()
    judge = Judge(arms[0].server, margin=options.tie_margin, stepwise=not options.paired)
    references = dict(zip(asked[0], answers[0], strict=True))
    checked = References(arms[0].server, judge, options.num_tokens, references)
    async with arms[0].without_delay():
        verdicts = [
            [await checked.verdict(*one) for one in zip(mine, given, strict=True)]
            for mine, given in zip(asked, answers, strict=True)
        ]
    return [
        ArmResult(
            arm,
            asked[index],
            tuple(answers[index]),
            tuple(verdicts[index]),
            warmed[index],
            {} if counted is None else counted.counts,
            options,
            cold[index] if cold else None,
            None if counted is None else counted.tally,
        )
        for index, (arm, counted) in enumerate(zip(arms, counts, strict=True))
    ]


async def _first_answer(arm: Arm, options: BenchOptions) -> Answer:
    return await ask(arm.front, COLD.messages, options.num_tokens)


async def _measure(
    arms: Sequence[Arm], asked: Sequence[Sequence[Prompt]], options: BenchOptions, watch: Watch
) -> list[list[Answer]]:
    """Answers by arm, then by prompt; `asked`: each arm's prompts."""
    answers: list[list[Answer]] = [[] for _ in arms]
    num_most = max(map(len, asked))
    for turn, first in enumerate(range(0, num_most, options.num_clients)):
        for number in rotated(len(arms), turn):
            arm = arms[number]
            together = asked[number][first : first + options.num_clients]
            if not together:
                continue
            await asyncio.sleep(options.pause_s)
            watch.asking(arm, together[0], first)
            for answer in await _ask_together(arm, together, options, watch):
                watch.answered(arm, answer)
                answers[number].append(answer)
    return answers


async def _ask_together(
    arm: Arm, prompts: Sequence[Prompt], options: BenchOptions, watch: Watch
) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                ask(
                    arm.front,
                    prompt.messages,
                    options.num_tokens,
                    on_text=watch.text,
                    fields=options.fields,
                ),
                name="ask",
            )
            for prompt in prompts
        ]
    return [task.result() for task in tasks]


def rotated(count: int, by: int) -> list[int]:
    """0..count-1, starting at `by` modulo `count`."""
    return [(by + number) % count for number in range(count)]


async def _counted(arm: Arm, before: ProxyCounts | None, num_answers: int) -> ProxyCounts | None:
    """What the proxy counted since `before`; it does so a moment after each answer's end."""
    if before is None:
        return None
    counted = before.since(before)
    try:
        async with asyncio.timeout(_COUNTS_WITHIN_S):
            while counted.num_answers < num_answers:
                await asyncio.sleep(0.05)
                now = await arm.proxy_counts()
                counted = counted if now is None else now.since(before)
    except TimeoutError:
        pass  # some answers were not followed: the counts say so
    return counted


def best_native(results: Sequence[ArmResult]) -> ArmResult | None:
    """The fastest of the arms with llama-server's own draft."""
    native = [result for result in results if result.arm.name == "native"]
    return max(native, key=lambda result: result.tokens_per_s or 0.0, default=None)


def by_category(result: ArmResult) -> dict[str, list[Answer]]:
    """Its answers by category, in alphabetical order."""
    answers: dict[str, list[Answer]] = {}
    pairs = zip(result.prompts, result.answers, strict=True)
    for prompt, answer in sorted(pairs, key=lambda pair: pair[0].category):
        answers.setdefault(prompt.category, []).append(answer)
    return answers
