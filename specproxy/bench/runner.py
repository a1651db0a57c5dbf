"""Runs a benchmark: warm up, measure, judge.

Invariant: while something is measured one arm runs at a time, with one request or with as many
as there are clients; each prompt is asked once of each arm, the arms in turn and in a rotating
order, so that what the machine does meanwhile hits all alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from specproxy.bench.answers import ask
from specproxy.bench.arms import Arm
from specproxy.bench.equality import TIE_MARGIN
from specproxy.bench.judge import Judge, Verdict
from specproxy.bench.stats import Answer, Portion, Summary, portions, speed, summarise
from specproxy.bench.warm import WarmUp, warm_up
from specproxy.bench.workloads import Prompt

_COUNTS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to measure.

    Attributes:
        num_tokens: limit of each answer, the same for all arms.
        tie_margin: see `equality`.
        pause_s: between requests, so that what an arm still does for its last answer is over.
        num_clients: requests at a time; they begin together, and the next ones when all are done.
    """

    num_tokens: int = 96
    tie_margin: float = TIE_MARGIN
    pause_s: float = 0.5
    num_clients: int = 1


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm, measured and judged.

    Attributes:
        answers, verdicts: one for each prompt, in order.
        proxy_counts: what the proxy counted for these answers; empty without a proxy.
    """

    arm: Arm
    answers: tuple[Answer, ...]
    verdicts: tuple[Verdict, ...]
    warm_up: WarmUp
    proxy_counts: Mapping[str, int]
    num_clients: int = 1

    @property
    def portions(self) -> list[Portion]:
        """What `tokens_per_s` is made of."""
        return portions(self.answers, self.num_clients)

    @property
    def tokens_per_s(self) -> float | None:
        """What arms are compared by: of one client the speed of decoding, of several their
        common throughput, prompts included."""
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
    warmed = await warm_up(arms, prompts, num_tokens=options.num_tokens, set_link=set_link)
    before = [await arm.proxy_counts() for arm in arms]
    answers = await _measure(arms, prompts, options, watch)
    counts = [
        await _counted(arm, so_far, len(prompts)) for arm, so_far in zip(arms, before, strict=True)
    ]
    watch.judging()
    judge = Judge(arms[0].server, margin=options.tie_margin)
    results = []
    for index, arm in enumerate(arms):
        verdicts = [
            await judge.judge(
                prompt.messages, options.num_tokens, reference=reference, answer=answer
            )
            for prompt, reference, answer in zip(prompts, answers[0], answers[index], strict=True)
        ]
        results.append(
            ArmResult(
                arm,
                tuple(answers[index]),
                tuple(verdicts),
                warmed[index],
                counts[index],
                options.num_clients,
            )
        )
    return results


async def _measure(
    arms: Sequence[Arm], prompts: Sequence[Prompt], options: BenchOptions, watch: Watch
) -> list[list[Answer]]:
    """Answers by arm, then by prompt."""
    answers: list[list[Answer]] = [[] for _ in arms]
    for turn, first in enumerate(range(0, len(prompts), options.num_clients)):
        asked = prompts[first : first + options.num_clients]
        for number in rotated(len(arms), turn):
            arm = arms[number]
            await asyncio.sleep(options.pause_s)
            watch.asking(arm, asked[0], first)
            together = await _ask_together(arm, asked, options, watch)
            for answer in together:
                watch.answered(arm, answer)
            answers[number] += together
    return answers


async def _ask_together(
    arm: Arm, prompts: Sequence[Prompt], options: BenchOptions, watch: Watch
) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                ask(arm.front, prompt.messages, options.num_tokens, on_text=watch.text),
                name="ask",
            )
            for prompt in prompts
        ]
    return [task.result() for task in tasks]


def rotated(count: int, by: int) -> list[int]:
    """0..count-1, starting at `by` modulo `count`."""
    return [(by + number) % count for number in range(count)]


async def _counted(arm: Arm, before: Mapping[str, int], num_answers: int) -> dict[str, int]:
    """What the proxy counted since `before`; it does so a moment after each answer's end."""
    if not before:
        return {}
    counts: dict[str, int] = {}
    try:
        async with asyncio.timeout(_COUNTS_WITHIN_S):
            while counts.get("num_answers", 0) < num_answers:
                await asyncio.sleep(0.05)
                now = await arm.proxy_counts()
                counts = {name: count - before.get(name, 0) for name, count in now.items()}
    except TimeoutError:
        pass  # some answers were not followed: the counts say so
    return counts


def best_native(results: Sequence[ArmResult]) -> ArmResult | None:
    """The fastest of the arms with llama-server's own draft."""
    native = [result for result in results if result.arm.name == "native"]
    return max(native, key=lambda result: result.tokens_per_s or 0.0, default=None)
