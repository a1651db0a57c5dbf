"""`specproxy bench`: arms up, measured with progress, reported."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.drafts import with_draft
from specproxy.bench.options import BenchCommand
from specproxy.bench.own import OwnPool, own_arms
from specproxy.bench.phases import phases_grid
from specproxy.bench.pools import DemoParts, demo_arms
from specproxy.bench.report import Report, differences
from specproxy.bench.runner import BenchOptions, Watch, run
from specproxy.bench.sweep import BY_CLIENTS, Sweep, sweep_differences, sweep_grid, sweep_verdict
from specproxy.bench.table import Grid, arms_grid, categories_grid, on_terminal
from specproxy.bench.verdict import verdict
from specproxy.bench.watch import BenchProgress
from specproxy.errors import PoolError
from specproxy.pool.demo import PoolOptions
from specproxy.target.facts import read_facts

WIDTH = 220
"""Of a table that goes into a file."""
ArmsStart = Callable[[int], AbstractAsyncContextManager[list[Arm]]]


async def bench(command: BenchCommand, parts: DemoParts, console: Console, out: Console) -> int:
    """Run it.

    Args:
        parts: what the pools are made of.
        console: for progress.
        out: for the result.

    Returns:
        The exit code: 0 if every answer was the target's own.
    """
    if command.is_sweep:
        return await _bench_sweep(command, parts, console, out)
    report = await demo_report(command, parts, console, swept_link=command.quick)
    return _conclude(command, report, out)


async def demo_report(
    command: BenchCommand, parts: DemoParts, console: Console, *, swept_link: bool = False
) -> Report:
    """Measure at one round trip, with one number of clients, on pools of the demo.

    Args:
        swept_link: start and warm on a link without delay, as a sweep does: minutes less on a slow
            one, and no figures of cold servers.
    """
    parts = await asyncio.to_thread(with_draft, parts, command.draft, console)
    num_clients, options = command.clients[0], command.options
    async with _arms(command, parts, console, num_clients, swept_link=swept_link) as arms:
        set_link = partial(set_rtt_ms, arms, command.rtt_ms) if swept_link else None
        options = replace(options, cold=options.cold and not swept_link)
        with BenchProgress(console, len(arms), len(command.prompts)) as progress:
            return await measured(command, arms, progress, options=options, set_link=set_link)


async def bench_own(command: BenchCommand, pool: OwnPool, console: Console, out: Console) -> int:
    """As `bench`, on a server of the user's own."""
    async with own_arms(pool, console) as (arms, sharing):
        options = replace(command.options, sharing=sharing, cold=False)
        with BenchProgress(console, len(arms), len(command.prompts)) as progress:
            report = await measured(command, arms, progress, options=options, is_demo=False)
    return _conclude(command, report, out)


def _conclude(command: BenchCommand, report: Report, out: Console) -> int:
    """Show and write it; returns the exit code."""
    show(report, out)
    command.outputs.write_report(report, command.line)
    _say_written(command, out)
    return 0 if report.identical else 1


def _arms(
    command: BenchCommand,
    parts: DemoParts,
    console: Console,
    num_clients: int,
    *,
    swept_link: bool = False,
) -> AbstractAsyncContextManager[list[Arm]]:
    """The demo's, for so many requests at a time.

    Args:
        swept_link: their link starts without delay, for it will be changed.
    """
    return demo_arms(
        parts,
        console,
        rtt_ms=0.0 if swept_link else command.rtt_ms,
        kinds=command.wanted.kinds,
        front_rtt_ms=command.front_rtt_ms,
        draft_ns=command.draft_ns,
        num_clients=num_clients,
        warm="always" if swept_link else "auto",
    )


async def _bench_sweep(
    command: BenchCommand, parts: DemoParts, console: Console, out: Console
) -> int:
    parts = await asyncio.to_thread(with_draft, parts, command.draft, console)

    def start(num_clients: int) -> AbstractAsyncContextManager[list[Arm]]:
        return _arms(command, parts, console, num_clients, swept_link=bool(command.rtt_sweep))

    done = await (
        rtt_sweep(command, start, console)
        if command.rtt_sweep
        else clients_sweep(command, start, console)
    )
    show_sweep(done, out)
    _say_written(command, out)
    return 0 if done.identical else 1


async def rtt_sweep(command: BenchCommand, start: ArmsStart, console: Console) -> Sweep:
    """Measure at every round trip.

    Every round has servers of its own, so that each can be asked the same prompts and none has
    learnt an answer. They start on a link without delay, where all token counts are warmed.
    What is finished is written after every round.

    Args:
        start: brings up the arms for so many requests at a time.
    """
    rounds: list[Report] = []
    for number, rtt_ms in enumerate(command.rtt_sweep, 1):
        where = f"{rtt_ms} ms ({number}/{len(command.rtt_sweep)})"
        async with start(command.clients[0]) as arms:

            async def set_link(arms: Sequence[Arm] = arms, rtt_ms: float = rtt_ms) -> None:
                await set_rtt_ms(arms, rtt_ms)

            with BenchProgress(console, len(arms), len(command.prompts), where=where) as watch:
                report = await measured(command, arms, watch, rtt_ms=rtt_ms, set_link=set_link)
                rounds.append(report)
        command.outputs.write_sweep(Sweep(rounds), command.line)
    return Sweep(rounds)


async def clients_sweep(command: BenchCommand, start: ArmsStart, console: Console) -> Sweep:
    """Measure with every number of requests at a time; otherwise as `rtt_sweep`."""
    rounds: list[Report] = []
    for number, num_clients in enumerate(command.clients, 1):
        where = f"{num_clients} at a time ({number}/{len(command.clients)})"
        options = replace(command.options, num_clients=num_clients)
        async with start(num_clients) as arms:
            with BenchProgress(console, len(arms), len(command.prompts), where=where) as watch:
                rounds.append(await measured(command, arms, watch, options=options))
        command.outputs.write_sweep(Sweep(rounds, BY_CLIENTS), command.line)
    return Sweep(rounds, BY_CLIENTS)


async def measured(
    command: BenchCommand,
    arms: Sequence[Arm],
    watch: Watch,
    *,
    options: BenchOptions | None = None,
    rtt_ms: float | None = None,
    set_link: Callable[[], Awaitable[None]] | None = None,
    is_demo: bool = True,
) -> Report:
    """Measure `arms`.

    Args:
        options, rtt_ms: the command's for None.
        set_link: see `runner.run`.
        is_demo: what lies between server and workers is known.
    """
    options = options or command.options
    results = await run(arms, command.prompts, options, watch, set_link=set_link)
    facts = await read_facts(arms[0].server)
    return Report(
        results,
        command.prompts,
        options,
        rtt_ms=command.rtt_ms if rtt_ms is None else rtt_ms,
        num_workers=PoolOptions().num_workers if is_demo else 0,
        mode=command.mode,
        llama_build=facts.build,
        draft=command.draft or "",
        front_rtt_ms=command.front_rtt_ms,
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
    grids = [arms_grid(report)]
    if any(result.tally is not None for result in report.results):
        grids.append(phases_grid(report))
    if len(report.prompts) > 1:
        grids.append(categories_grid(report))
    _show(grids, differences(report), verdict(report), out)


def show_sweep(sweep: Sweep, out: Console) -> None:
    """As `show`."""
    _show([sweep_grid(sweep)], sweep_differences(sweep), sweep_verdict(sweep), out)


def _show(
    grids: Sequence[Grid], unequal: Sequence[str], sentences: Sequence[str], out: Console
) -> None:
    if not out.is_terminal:
        out = Console(file=out.file, width=WIDTH)
    for grid in grids:
        out.print(on_terminal(grid))
    for line in unequal:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in sentences:
        out.print(line, style="bold", highlight=False, markup=False, soft_wrap=True)


def _say_written(command: BenchCommand, out: Console) -> None:
    for path in command.outputs.paths:
        out.print(f"Written to {path}", highlight=False, soft_wrap=True)
