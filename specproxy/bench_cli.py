"""`specproxy bench` on the command line. Thin, as `cli` is, whose exit codes it has."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from specproxy import logs
from specproxy.errors import ConfigError
from specproxy.running import run_until_told
from specproxy.settings import LogSettings


def register(app: typer.Typer) -> None:
    """Give `app` the command."""
    app.command()(bench)


def bench(
    on_demo: Annotated[bool, typer.Option("--demo", help="On the demo pool.")] = False,
    rtt_ms: Annotated[
        float, typer.Option("--rtt-ms", min=0, max=5000, help="Round trip to each worker, ms.")
    ] = 80.0,
    rtt_sweep: Annotated[
        str | None, typer.Option(help="One after the other, e.g. 0,10,20,40,80,160.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="How specproxy works, an arm each: seeding,coordinator.")
    ] = "seeding",
    tokens: Annotated[
        int | None, typer.Option(min=2, max=1024, help="Per answer at most; 96, in a sweep 64.")
    ] = None,
    prompts: Annotated[int | None, typer.Option(min=1, help="How many; all, in a sweep 6.")] = None,
    draft_n: Annotated[
        str, typer.Option(help="Tokens that llama-server's own draft drafts, e.g. 4,8,16.")
    ] = "16",
    clients: Annotated[int, typer.Option(min=1, max=64, help="Requests at a time.")] = 1,
    groups: Annotated[
        str, typer.Option(help="Batches the coordinator keeps in flight, an arm each, e.g. 1,2.")
    ] = "1",
    quick: Annotated[bool, typer.Option("--quick", help="4 prompts of 32 tokens.")] = False,
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
    from specproxy.bench.command import bench as run_bench
    from specproxy.bench.options import BenchCommand, read_modes, read_numbers
    from specproxy.bench.outputs import Outputs
    from specproxy.bench.pools import demo_parts

    if not on_demo:
        raise ConfigError(
            "`specproxy bench` measures the demo pool only so far.", remedy="Add --demo."
        )
    command = BenchCommand(
        rtt_ms=rtt_ms,
        rtt_sweep=()
        if rtt_sweep is None
        else read_numbers(
            "--rtt-sweep", rtt_sweep, smallest=0, largest=5000, example="0,10,20,40,80,160"
        ),
        modes=read_modes(mode),
        num_tokens=tokens,
        num_prompts=prompts,
        draft_ns=read_numbers("--draft-n", draft_n),
        num_clients=clients,
        groups=read_numbers("--groups", groups, largest=8, example="1,2"),
        quick=quick,
        outputs=Outputs(json_file, plot, report),
        line=shlex.join(["specproxy", *sys.argv[1:]]),
    )
    command.check()
    logs.configure(LogSettings(level="warning"))
    console = Console(stderr=True)
    parts = demo_parts(console)
    raise typer.Exit(run_until_told(lambda: run_bench(command, parts, console, Console())))
