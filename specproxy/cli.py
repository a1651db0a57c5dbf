"""The command line. Thin: options in, one coroutine run until it ends or is told to stop.

Each command imports what it needs itself, so that `--help` and a wrong flag are answered at once.

Exit codes: 0 it did what it should; 1 it did not (a part failed, or a comparison says no);
2 settings, flags or the set-up are wrong; 130 and 143 for SIGINT and SIGTERM.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import specproxy
from specproxy.bench_cli import register as register_bench
from specproxy.equivalence_cli import register as register_equivalence
from specproxy.errors import ConfigError, SetupError, SpecproxyError
from specproxy.pool_cli import register as register_pool
from specproxy.probe_cli import register as register_probe
from specproxy.running import run_until_told, serve_until_told

if TYPE_CHECKING:
    from specproxy.settings import Settings

app = typer.Typer(
    name="specproxy",
    help="Speculative decoding for llama.cpp RPC pools: same answers, fewer round trips.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

register_pool(app)

RttMs = Annotated[
    float, typer.Option("--rtt-ms", min=0, max=5000, help="Round trip to each worker, ms.")
]


def main() -> None:
    """Entry point of `specproxy`: every known error is one clear message."""
    try:
        app()
    except SpecproxyError as error:
        sys.exit(_explain(error))


def _explain(error: SpecproxyError) -> int:
    """Say what went wrong; returns the exit code."""
    Console(stderr=True).print(
        f"specproxy: error: {error}", highlight=False, markup=False, soft_wrap=True
    )
    return 2 if isinstance(error, ConfigError | SetupError) else 1


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specproxy {specproxy.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Settings file; see configs/.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Instead of listen.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of listen.port; 0: any.")
    ] = None,
) -> None:
    """Run the proxy until SIGINT or SIGTERM."""
    settings = _configured(config, listen={"host": host, "port": port})
    from specproxy.serve import serve as run_proxy

    raise typer.Exit(serve_until_told(lambda: run_proxy(settings, Console(stderr=True), Console())))


@app.command()
def coordinator(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Settings file; see configs/.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The target's GGUF; instead of coordinator.model.")
    ] = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(help="host:port of an RPC worker; once for each, in the layers' order."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Instead of listen.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of listen.port; 0: any.")
    ] = None,
) -> None:
    """Run a target that verifies drafts itself, in llama-server's place."""
    settings = _configured(
        config,
        listen={"host": host, "port": port},
        coordinator={"model": model, "workers": worker or None},
    )
    from specproxy.coordinate import coordinate

    raise typer.Exit(
        serve_until_told(lambda: coordinate(settings, Console(stderr=True), Console()))
    )


@app.command()
def worker(
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 50052,
    device: Annotated[
        str | None, typer.Option(help="ggml's name of the device to serve, as CUDA0; all GPUs.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the processor.")] = None,
    cache: Annotated[bool, typer.Option("--cache", help="Keep tensors on disk.")] = False,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Serve on an address that others may reach.")
    ] = False,
) -> None:
    """Serve this machine's devices to a coordinator: llama.cpp's RPC server."""
    from specproxy import logs
    from specproxy.settings import LogSettings

    logs.configure(LogSettings())
    from specproxy.worker import run_worker

    run_worker(
        host,
        port,
        Console(),
        device=device,
        num_threads=threads,
        cache=cache,
        allow_public=allow_public,
    )


def _configured(config: Path | None, **sections: dict[str, Any]) -> "Settings":
    """The settings of `config` and of the command line; the log as they want it."""
    from specproxy import logs
    from specproxy.settings import load

    settings = load(config, **_given(**sections))
    logs.configure(settings.log)
    return settings


def _given(**sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Sections of settings with what the command line says; nothing of what it does not."""
    said = {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in sections.items()
    }
    return {name: section for name, section in said.items() if section}


@app.command()
def demo(
    rtt_ms: RttMs = 80.0,
    tokens: Annotated[int, typer.Option(min=2, max=1024, help="Per answer at most.")] = 64,
    prompts: Annotated[int, typer.Option(min=1, help="How many.")] = 4,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up until Ctrl-C.")] = False,
) -> None:
    """Show it: a pool on this machine, the same chats without and with the proxy."""
    from specproxy import logs
    from specproxy.bench.pools import demo_parts
    from specproxy.bench.workloads import choose
    from specproxy.demo import DemoCommand
    from specproxy.demo import demo as run_demo
    from specproxy.settings import LogSettings

    logs.configure(LogSettings(level="warning"))
    choose(prompts)  # what cannot work is said before anything is built
    command = DemoCommand(rtt_ms=rtt_ms, num_tokens=tokens, num_prompts=prompts, keep=keep)
    console = Console(stderr=True)
    parts = demo_parts(console)
    raise typer.Exit(run_until_told(lambda: run_demo(command, parts, console, Console())))


register_bench(app)
register_probe(app)
register_equivalence(app)

if __name__ == "__main__":
    main()
