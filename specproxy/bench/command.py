"""`specproxy bench --demo`: arms up, measured with progress, reported."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.options import BenchCommand
from specproxy.bench.pools import DemoParts, demo_arms
from specproxy.bench.report import Report, differences
from specproxy.bench.runner import Watch, run
from specproxy.bench.sweep import Sweep, sweep_differences, sweep_grid, sweep_verdict
from specproxy.bench.table import Grid, arms_grid, on_terminal
from specproxy.bench.verdict import verdict
from specproxy.bench.watch import BenchProgress
from specproxy.errors import PoolError
from specproxy.pool.demo import PoolOptions
from specproxy.target.facts import read_facts

WIDTH = 180
"""Of a table that goes into a file."""
ArmsStart = Callable[[], AbstractAsyncContextManager[list[Arm]]]


async def bench(command: BenchCommand, parts: DemoParts, console: Console, out: Console) -> int:
    """Run it.

    Args:
        parts: what the pools are made of.
        console: for progress.
        out: for the result.

    Returns:
        The exit code: 0 if every answer was the target's own.
    """
    if command.rtt_sweep:
        return await _bench_sweep(command, parts, console, out)
    async with demo_arms(
        parts,
        console,
        rtt_ms=command.rtt_ms,
        ways=command.modes,
        draft_ns=command.draft_ns,
        num_clients=command.num_clients,
        groups=command.groups,
    ) as arms:
        with BenchProgress(console, len(arms), len(command.prompts)) as progress:
            report = await measured(command, arms, command.rtt_ms, progress)
    show(report, out)
    command.outputs.write_report(report, command.line)
    _say_written(command, out)
    return 0 if report.identical else 1


async def _bench_sweep(
    command: BenchCommand, parts: DemoParts, console: Console, out: Console
) -> int:
    def start() -> AbstractAsyncContextManager[list[Arm]]:
        return demo_arms(
            parts,
            console,
            rtt_ms=0.0,
            ways=command.modes,
            draft_ns=command.draft_ns,
            num_clients=command.num_clients,
            groups=command.groups,
            warm="always",
        )

    done = await sweep(command, start, console)
    show_sweep(done, out)
    _say_written(command, out)
    return 0 if done.identical else 1


async def sweep(command: BenchCommand, start: ArmsStart, console: Console) -> Sweep:
    """Measure at every round trip.

    Every round has servers of its own, so that each can be asked the same prompts and none has
    learnt an answer. They start on a link without delay, where all token counts are warmed.
    What is finished is written after every round.

    Args:
        start: brings up the arms.
    """
    rounds: list[Report] = []
    for number, rtt_ms in enumerate(command.rtt_sweep, 1):
        where = f"{rtt_ms} ms ({number}/{len(command.rtt_sweep)})"
        async with start() as arms:

            async def set_link(arms: Sequence[Arm] = arms, rtt_ms: float = rtt_ms) -> None:
                await set_rtt_ms(arms, rtt_ms)

            with BenchProgress(console, len(arms), len(command.prompts), where=where) as watch:
                rounds.append(await measured(command, arms, rtt_ms, watch, set_link))
        command.outputs.write_sweep(Sweep(rounds), command.line)
    return Sweep(rounds)


async def measured(
    command: BenchCommand,
    arms: Sequence[Arm],
    rtt_ms: float,
    watch: Watch,
    set_link: Callable[[], Awaitable[None]] | None = None,
) -> Report:
    """Measure `arms`; arguments as of `run`."""
    results = await run(arms, command.prompts, command.options, watch, set_link=set_link)
    facts = await read_facts(arms[0].server)
    return Report(
        results,
        command.prompts,
        command.options,
        rtt_ms=rtt_ms,
        num_workers=PoolOptions().num_workers,
        mode=command.mode,
        llama_build=facts.build,
    )


async def set_rtt_ms(arms: Sequence[Arm], rtt_ms: float) -> None:
    """Give every arm's link this round trip.

    Raises:
        PoolError: an arm's link is not ours to change.
    """
    for arm in arms:
        if arm.link is None:
            raise PoolError(f"The link of {arm.label} cannot be changed.")
        await arm.link.set_rtt_ms(rtt_ms)


def show(report: Report, out: Console) -> None:
    """Print the table, what was not equal, and the verdict."""
    _show(arms_grid(report), differences(report), verdict(report), out)


def show_sweep(sweep: Sweep, out: Console) -> None:
    """As `show`."""
    _show(sweep_grid(sweep), sweep_differences(sweep), sweep_verdict(sweep), out)


def _show(grid: Grid, unequal: Sequence[str], sentences: Sequence[str], out: Console) -> None:
    if not out.is_terminal:
        out = Console(file=out.file, width=WIDTH)
    out.print(on_terminal(grid))
    for line in unequal:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in sentences:
        out.print(line, style="bold", highlight=False, markup=False, soft_wrap=True)


def _say_written(command: BenchCommand, out: Console) -> None:
    for path in command.outputs.paths:
        out.print(f"Written to {path}", highlight=False, soft_wrap=True)
