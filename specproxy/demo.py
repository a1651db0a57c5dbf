"""`specproxy demo`: a pool on this machine, the same chats with and without the proxy.

The answers stream on the terminal as they come; then a table says how fast each way was, and
whether what the proxy gave is what the target alone gives.
"""

import asyncio
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from specproxy.bench.arms import Arm
from specproxy.bench.command import show
from specproxy.bench.pools import DemoParts, demo_arms
from specproxy.bench.report import Report
from specproxy.bench.runner import BenchOptions, Watch, run
from specproxy.bench.stats import Answer, summarise
from specproxy.bench.workloads import Prompt, choose
from specproxy.pool.demo import PoolOptions
from specproxy.progress import Step
from specproxy.target.facts import read_facts


@dataclass(frozen=True, slots=True)
class DemoCommand:
    """The command's options.

    Attributes:
        keep: leave pool and proxy running until Ctrl-C.
    """

    rtt_ms: float = 80.0
    num_tokens: int = 64
    num_prompts: int = 4
    keep: bool = False


async def demo(command: DemoCommand, parts: DemoParts, console: Console, out: Console) -> int:
    """Run it.

    Args:
        parts: what the pools are made of.
        console: for progress.
        out: for the conversations and the result.

    Returns:
        The exit code: 0 if the answers were identical and the proxy was faster.
    """
    prompts = choose(command.num_prompts)
    options = BenchOptions(num_tokens=command.num_tokens)
    async with demo_arms(parts, console, rtt_ms=command.rtt_ms) as arms:
        results = await run(arms, prompts, options, DemoWatch(console, out))
        facts = await read_facts(arms[0].server)
        report = Report(
            results,
            prompts,
            options,
            rtt_ms=command.rtt_ms,
            num_workers=PoolOptions().num_workers,
            mode="seeding",
            llama_build=facts.build,
        )
        show(report, out)
        code = conclude(report, out)
        if command.keep:
            await _keep(arms, out)
    return code


def conclude(report: Report, out: Console) -> int:
    """Print the demo's last line; returns the exit code."""
    alone, proxied = report.results[0], report.results[-1]
    speedup = report.speedup(proxied) or 0.0
    slow, fast = alone.summary, proxied.summary
    out.print(
        f"tokens/s: {slow.tokens_per_s or 0:.1f} alone, {fast.tokens_per_s or 0:.1f} through"
        f" specproxy: {speedup:.2f} times as fast; acceptance {fast.acceptance_rate or 0:.0%},"
        f" {fast.tokens_per_pass or 0:.1f} tokens per pass",
        highlight=False,
        soft_wrap=True,
    )
    out.print(f"identical: {'yes' if report.identical else 'no'}", style="bold", highlight=False)
    if not report.identical:
        return 1
    if speedup <= 1:
        out.print("specproxy was not faster here.", style="yellow")
        return 1
    return 0


async def _keep(arms: list[Arm], out: Console) -> None:
    front, server = arms[-1].front, arms[0].server
    out.print(
        f"The proxy stays at http://{front.name}/v1, the target alone is http://{server.name}/v1."
        " Ctrl-C ends both.",
        highlight=False,
        soft_wrap=True,
    )
    await asyncio.Event().wait()


class DemoWatch(Watch):
    """Shows the conversations."""

    def __init__(self, console: Console, out: Console) -> None:
        self._console = console
        self._out = out
        self._step: Step | None = None
        self._index = -1

    def warming(self) -> None:
        self._step = Step(self._console, "Warming both ways alike").__enter__()

    def asking(self, arm: Arm, prompt: Prompt, index: int) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if index != self._index:
            self._index = index
            self._out.print(Text(f"\n{prompt.title}", style="bold"), soft_wrap=True)
        self._out.print(Text(f"[{arm.label}] ", style="cyan"), end="")

    def text(self, piece: str) -> None:
        self._out.print(Text(piece), end="", soft_wrap=True)
        self._out.file.flush()

    def answered(self, arm: Arm, answer: Answer) -> None:
        rate = summarise([answer]).tokens_per_s or 0.0
        self._out.print(Text(f"\n  {rate:.1f} tokens/s", style="green"))

    def judging(self) -> None:
        self._out.print()
