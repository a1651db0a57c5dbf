"""`specproxy bench` on the command line. Thin, as `cli` is, whose exit codes it has."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.running import run_until_told


def register(app: typer.Typer) -> None:
    """Give `app` the command."""
    app.command()(bench)


def bench(
    on_demo: Annotated[bool, typer.Option("--demo", help="On the demo pool.")] = False,
    target: Annotated[
        str | None,
        typer.Option(help="On this llama-server or coordinator: as it is, and through specproxy."),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(help="The draft's GGUF; with --demo also random, or dear: the target's own."),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Do the published runs again, reports into here."),
    ] = None,
    bars: Annotated[
        str | None,
        typer.Option(help="Measure what must be reached: all, or rows, e.g. rtt80,random80."),
    ] = None,
    rtt_ms: Annotated[
        float, typer.Option("--rtt-ms", min=0, max=5000, help="Round trip to each worker, ms.")
    ] = 80.0,
    rtt_sweep: Annotated[
        str | None, typer.Option(help="One after the other, e.g. 0,10,20,40,80,160.")
    ] = None,
    front_rtt_ms: Annotated[
        float,
        typer.Option(
            "--front-rtt-ms", min=0, max=5000, help="Round trip to the server, ms; the proxy both."
        ),
    ] = 0.0,
    mode: Annotated[
        str | None,
        typer.Option(
            help="How specproxy works, an arm each: seeding,seeding-on-draft,fanout,coordinator; "
            "seeding, with --quick all but the second."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=2, max=1024, help="Per answer at most; 96, in a sweep 64.")
    ] = None,
    prompts: Annotated[int | None, typer.Option(min=1, help="How many; all, in a sweep 6.")] = None,
    draft_n: Annotated[
        str, typer.Option(help="Tokens that llama-server's own draft drafts, e.g. 4,8,16.")
    ] = "16",
    on_draft_n: Annotated[
        str, typer.Option(help="The same, where seeds come on top of it; an arm each.")
    ] = "8",
    recorded_draft: Annotated[
        float | None,
        typer.Option(
            "--recorded-draft", min=0, max=1000, help="Also with a draft that takes ms per token."
        ),
    ] = None,
    clients: Annotated[
        str, typer.Option(help="Requests at a time; several, e.g. 1,4,8, one after the other.")
    ] = "1",
    workload: Annotated[
        str, typer.Option(help="short, or long: prompts of about 2,000 tokens.")
    ] = "short",
    groups: Annotated[
        str, typer.Option(help="Batches the coordinator keeps in flight, an arm each, e.g. 1,2.")
    ] = "1",
    quick: Annotated[
        bool, typer.Option("--quick", help="4 prompts of 32 tokens, every way.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write the report here too.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Draw it: a name in .svg or .png.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a page of it: a name in .html.")
    ] = None,
) -> None:
    """Measure: the target alone, with its own draft model, and through specproxy."""
    from specproxy import logs
    from specproxy.bench.bar_command import RESULTS, measure_bars
    from specproxy.bench.bar_rows import rows_of
    from specproxy.bench.command import bench as run_bench
    from specproxy.bench.command import bench_own, demo_report
    from specproxy.bench.options import (
        QUICK_MODES,
        BenchCommand,
        read_modes,
        read_numbers,
        read_workload,
    )
    from specproxy.bench.outputs import Outputs
    from specproxy.bench.own import OwnPool
    from specproxy.bench.pools import demo_parts
    from specproxy.bench.published import publish_all
    from specproxy.settings import LogSettings, load_one_target

    console = Console(stderr=True)
    if [on_demo, target is not None, publish is not None, bars is not None].count(True) != 1:
        raise ConfigError(
            "There are four things to measure.",
            remedy="Give --demo, --target URL --draft MODEL.gguf, --publish FOLDER, or --bars all.",
        )
    if target is not None and draft is None:
        raise ConfigError(
            "--target needs --draft.", remedy="The draft is a small sibling of the target's model."
        )
    if draft is not None and not (on_demo or target is not None):
        raise ConfigError("--draft is for --demo and for --target.")
    logs.configure(LogSettings(level="warning"))
    if publish is not None:
        folder = publish
        parts = demo_parts(console)
        raise typer.Exit(run_until_told(lambda: publish_all(folder, parts, console, Console())))
    if bars is not None:
        rows = rows_of(bars, quick=quick)
        path = json_file or (None if quick else RESULTS)
        parts = demo_parts(console)
        measure = partial(demo_report, parts=parts, console=console, swept_link=True)
        raise typer.Exit(
            run_until_told(lambda: measure_bars(rows, path, measure, console, Console()))
        )
    command = BenchCommand(
        rtt_ms=rtt_ms,
        rtt_sweep=()
        if rtt_sweep is None
        else read_numbers(
            "--rtt-sweep", rtt_sweep, smallest=0, largest=5000, example="0,10,20,40,80,160"
        ),
        front_rtt_ms=front_rtt_ms,
        modes=read_modes(mode or (QUICK_MODES if quick else "seeding")),
        num_tokens=tokens,
        num_prompts=prompts,
        draft_ns=read_numbers("--draft-n", draft_n),
        on_draft_ns=read_numbers("--on-draft-n", on_draft_n),
        draft=draft,
        recorded_ms=recorded_draft,
        clients=read_numbers("--clients", clients, example="1,4,8"),
        workload=read_workload(workload),
        groups=read_numbers("--groups", groups, largest=8, example="1,2"),
        quick=quick,
        outputs=Outputs(json_file, plot, report),
        line=shlex.join(["specproxy", *sys.argv[1:]]),
    )
    command.check()
    if target is not None:
        if command.is_sweep or front_rtt_ms or recorded_draft is not None:
            raise ConfigError(
                "Sweeps, links and recorded drafts need servers that are started for them.",
                remedy="Use --demo, or one number of --clients.",
            )
        pool = OwnPool(
            load_one_target(
                target={"url": target},
                draft={"model": draft},
                listen={"host": "127.0.0.1", "port": 0},
            )
        )
        raise typer.Exit(run_until_told(lambda: bench_own(command, pool, console, Console())))
    parts = demo_parts(console)
    raise typer.Exit(run_until_told(lambda: run_bench(command, parts, console, Console())))
