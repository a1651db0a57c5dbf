"""`specproxy bench`: arms up, measured with progress, reported."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.pools import DemoParts, Way, demo_arms
from specproxy.bench.report import Report, differences, table, to_json
from specproxy.bench.runner import BenchOptions, Watch, run
from specproxy.bench.stats import Answer, summarise
from specproxy.bench.workloads import Prompt, choose
from specproxy.errors import ConfigError
from specproxy.pool.demo import PoolOptions
from specproxy.progress import Step
from specproxy.target.facts import read_facts

MODES: tuple[Way, ...] = ("seeding", "coordinator")
LATER_MODES = ("fanout",)
QUICK_PROMPTS = 4
QUICK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """The command's options.

    Attributes:
        num_tokens, num_prompts: None: all there is, or less when `quick`.
        draft_ns, groups: each is an arm of its own.
        json_path: None writes no file.
    """

    rtt_ms: float = 80.0
    mode: Way = "seeding"
    num_tokens: int | None = None
    num_prompts: int | None = None
    draft_ns: tuple[int, ...] = (16,)
    num_clients: int = 1
    groups: tuple[int, ...] = (1,)
    quick: bool = False
    json_path: Path | None = None

    @property
    def options(self) -> BenchOptions:
        return BenchOptions(
            num_tokens=self.num_tokens or (QUICK_TOKENS if self.quick else 96),
            num_clients=self.num_clients,
        )

    @property
    def prompts(self) -> Sequence[Prompt]:
        return choose(self.num_prompts or (QUICK_PROMPTS if self.quick else None))

    def check(self) -> None:
        """Find out what cannot work before anything is built or measured.

        Raises:
            ConfigError: there are not so many prompts, or the file cannot be written.
        """
        choose(self.num_prompts)
        if self.json_path is not None:
            _check_writable(self.json_path)


def read_mode(mode: str) -> Way:
    """The way the specproxy arm works.

    Raises:
        ConfigError: it does not exist, or not yet.
    """
    for known in MODES:
        if mode == known:
            return known
    what = "is not built yet" if mode in LATER_MODES else "does not exist"
    raise ConfigError(f"--mode {mode} {what}.", remedy=f"What exists: {', '.join(MODES)}.")


def read_numbers(option: str, text: str, *, largest: int = 64) -> tuple[int, ...]:
    """Numbers separated by commas, as an option has them.

    Raises:
        ConfigError: something else was given.
    """
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(1 <= number <= largest for number in numbers):
        raise ConfigError(
            f"{option} {text} is no list of numbers from 1 to {largest}.",
            remedy=f"For example: {option} {','.join(map(str, _examples(largest)))}.",
        )
    return numbers


def _examples(largest: int) -> tuple[int, ...]:
    return (4, 8, 16) if largest >= 16 else (1, 2)


async def bench(command: BenchCommand, parts: DemoParts, console: Console, out: Console) -> int:
    """Run it.

    Args:
        parts: what the pools are made of.
        console: for progress.
        out: for the result.

    Returns:
        The exit code: 0 if every answer was the target's own.
    """
    prompts, path = command.prompts, command.json_path
    async with demo_arms(
        parts,
        console,
        rtt_ms=command.rtt_ms,
        way=command.mode,
        draft_ns=command.draft_ns,
        num_clients=command.num_clients,
        groups=command.groups,
    ) as arms:
        with BenchProgress(console, len(arms), len(prompts)) as progress:
            results = await run(arms, prompts, command.options, progress)
        facts = await read_facts(arms[0].server)
    report = Report(
        results,
        prompts,
        command.options,
        rtt_ms=command.rtt_ms,
        num_workers=PoolOptions().num_workers,
        mode=command.mode,
        llama_build=facts.build,
    )
    show(report, out)
    if path is not None:
        path.write_text(json.dumps(to_json(report), indent=1) + "\n", encoding="utf-8")
        out.print(f"Written to {path}", highlight=False, soft_wrap=True)
    return 0 if report.identical else 1


def show(report: Report, out: Console) -> None:
    """Print the table, and what was not equal."""
    if not out.is_terminal:
        out = Console(file=out.file, width=160)
    out.print(table(report))
    for line in differences(report):
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    for result in report.results:
        followed = result.proxy_counts.get("num_answers", len(result.answers))
        if followed < len(result.answers):
            out.print(f"Only {followed} of {len(result.answers)} answers were sped up.")


def _check_writable(path: Path) -> None:
    """Found out before minutes of measuring, not after."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", remedy="Give --json another path."
        ) from error


class BenchProgress(Watch):
    """Shows where a benchmark is. A context manager."""

    def __init__(self, console: Console, num_arms: int, num_prompts: int) -> None:
        self._console = console
        self._num_arms = num_arms
        self._num_prompts = num_prompts
        self._step: Step | None = None
        self._where = ""
        self._num_pieces = 0

    def __enter__(self) -> "BenchProgress":
        return self

    def __exit__(self, *error: object) -> None:
        self._next(None)

    def warming(self) -> None:
        self._next(f"Warming {self._num_arms} arms alike")

    def asking(self, arm: Arm, prompt: Prompt, index: int) -> None:
        if not self._where:
            self._next(f"Measuring {self._num_arms} arms with {self._num_prompts} prompts")
        self._where = f"[prompt {index + 1}/{self._num_prompts}, {arm.label}]"
        self._num_pieces = 0
        self._update()

    def text(self, piece: str) -> None:
        self._num_pieces += 1
        self._update()

    def answered(self, arm: Arm, answer: Answer) -> None:
        if not self._console.is_terminal:
            rate = summarise([answer]).tokens_per_s or 0.0
            self._console.print(
                f"  {self._where[1:-1]}: {answer.num_tokens} tokens, {rate:.1f} tok/s",
                style="dim",
                highlight=False,
            )

    def judging(self) -> None:
        self._next("Comparing the answers, token by token")

    def _update(self) -> None:
        if self._step is not None:
            self._step.update(f"{self._where} {self._num_pieces} pieces of text")

    def _next(self, title: str | None) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if title is not None:
            self._step = Step(self._console, title).__enter__()
