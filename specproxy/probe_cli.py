"""`specproxy probe` on the command line. Thin, as `cli` is, whose exit codes it has."""

from typing import Annotated

import typer
from rich.console import Console

from specproxy.running import run_until_told


def register(app: typer.Typer) -> None:
    """Give `app` the command."""
    app.command()(probe)


def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="The target, without /v1.")],
    api_key: Annotated[
        str | None, typer.Option(envvar="SPECPROXY_TARGET__API_KEY", help="The target's own key.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Find out what a target is and which ways it can be sped up; it should be idle meanwhile."""
    from specproxy import logs
    from specproxy.probe.command import probe_command
    from specproxy.settings import LogSettings, load_one_target

    logs.configure(LogSettings(level="error"))
    settings = load_one_target(target={"url": url, "api_key": api_key}).target
    raise typer.Exit(
        run_until_told(
            lambda: probe_command(settings, Console(stderr=True), Console(), json_output=as_json)
        )
    )
