"""The pool's part of the command line: `pool ...`, `inspect`, `distribute`, `doctor`, `relay`.

Thin, as `cli` is: options in, one function called. Exit codes are those of `cli`.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.running import run_until_told

pool_app = typer.Typer(
    help="Plan, start and watch a whole pool, described by one file; see configs/pools/.",
    no_args_is_help=True,
)

PoolPath = Annotated[Path, typer.Argument(metavar="POOL.yaml", help="The pool's file.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


@pool_app.command()
def plan(pool: PoolPath, as_json: AsJson = False) -> None:
    """Show layers, memory, links and the command for each machine; start nothing."""
    from specproxy.pool.plan_report import plan_command

    raise typer.Exit(plan_command(pool, Console(), as_json=as_json))


@pool_app.command()
def up(
    pool: PoolPath,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=1, help="For loading the model over the links.")
    ] = 900.0,
) -> None:
    """Start what is to run here or where ssh leads, wait until it answers, leave it running."""
    from specproxy.pool.up import up_command

    raise typer.Exit(
        run_until_told(
            lambda: up_command(pool, Console(stderr=True), Console(), timeout_s=timeout_s)
        )
    )


@pool_app.command()
def status(pool: PoolPath, as_json: AsJson = False) -> None:
    """Show processes, slots, memory and speed; the exit code is 1 unless all is well."""
    from specproxy.pool.status import status_command

    raise typer.Exit(run_until_told(lambda: status_command(pool, Console(), as_json=as_json)))


@pool_app.command()
def down(pool: PoolPath) -> None:
    """End what `up` started."""
    from specproxy.pool.down import down_command

    raise typer.Exit(run_until_told(lambda: down_command(pool, Console(stderr=True), Console())))


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")],
    draft: Annotated[Path | None, typer.Option(help="Does this draft suit it?")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Lay it out on this pool's devices.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model is and costs; only headers are read."""
    from specproxy.pool.inspect import inspect_command

    raise typer.Exit(inspect_command(model, Console(), draft=draft, plan=plan, as_json=as_json))


def doctor(pool: PoolPath, as_json: AsJson = False) -> None:
    """Say what is wrong with a pool and how to mend it; the exit code is 1 if there is an error."""
    from specproxy.pool.doctor.command import doctor_command

    raise typer.Exit(
        run_until_told(
            lambda: doctor_command(pool, Console(stderr=True), Console(), as_json=as_json)
        )
    )


def distribute(
    source: Annotated[Path, typer.Argument(metavar="MODEL", help="A GGUF, or a folder of files.")],
    places: Annotated[
        list[str] | None, typer.Argument(metavar="[USER@HOST:/FOLDER]...", help="Where to.")
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="To the coordinator's machine of this pool's file.")
    ] = None,
    way: Annotated[str, typer.Option(help="auto, rsync or pipe (plain ssh).")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Transfers at a time.")] = 4,
    ssh: Annotated[
        str | None, typer.Option(help="The ssh command with its options: 'ssh -p 2222'.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
) -> None:
    """Copy a model to machines: in parallel, resumed where it was interrupted, verified."""
    from specproxy.pool.distribute import distribute_command
    from specproxy.pool.transfer import WAYS

    if way not in WAYS:
        raise ConfigError(f"--way {way} does not exist.", remedy=f"What exists: {', '.join(WAYS)}.")
    raise typer.Exit(
        run_until_told(
            lambda: distribute_command(
                source,
                places or [],
                Console(stderr=True),
                Console(),
                pool=pool,
                way=WAYS[way],
                jobs=jobs,
                ssh=ssh,
                dry_run=dry_run,
            )
        )
    )


def relay(
    targets: Annotated[list[str], typer.Argument(metavar="HOST:PORT...", help="The workers.")],
    rtt_ms: Annotated[float, typer.Option("--rtt-ms", min=0, max=5000)] = 80.0,
    jitter_ms: Annotated[
        float, typer.Option("--jitter-ms", min=0, max=5000, help="Later by up to this, by chance.")
    ] = 0.0,
    mbit_s: Annotated[
        float | None, typer.Option("--mbit-s", min=0.001, help="Rate of each direction.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the first relay, on loopback; 0: any.")
    ] = 0,
) -> None:
    """Put a slow link before workers, to rehearse a far pool on one machine."""
    from specproxy.pool.relay_command import relay_command

    raise typer.Exit(
        relay_command(
            targets, Console(), rtt_ms=rtt_ms, jitter_ms=jitter_ms, mbit_s=mbit_s, port=port
        )
    )


def register(app: typer.Typer) -> None:
    """Add all of it to the main command."""
    app.add_typer(pool_app, name="pool")
    for command in (inspect, doctor, distribute, relay):
        app.command()(command)
