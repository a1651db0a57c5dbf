"""`specproxy verify-equivalence` on the command line; thin, with the exit codes of `cli`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.running import run_until_told

if TYPE_CHECKING:
    from specproxy.settings import TargetSettings


def register(app: typer.Typer) -> None:
    """Give `app` the command."""
    app.command("verify-equivalence")(verify_equivalence)


def verify_equivalence(
    on_demo: Annotated[bool, typer.Option("--demo", help="On pools on this machine.")] = False,
    mode: Annotated[
        str, typer.Option(help="Of --demo, one after the other: seeding,fanout,coordinator.")
    ] = "seeding,coordinator",
    target: Annotated[
        str | None, typer.Option(help="URL of the proxy, or of what else is to be checked.")
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="URL of the same target without speculation.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=8, max=1024, help="Per answer at most.")] = 48,
    longest_prompt: Annotated[
        int, typer.Option(min=256, help="A longer context is not filled to its end, in tokens.")
    ] = 8192,
) -> None:
    """Check that answers are the target's own: serial, cached, concurrent, sampled, long, edited.

    Keys: SPECPROXY_LISTEN__API_KEY for --target, SPECPROXY_TARGET__API_KEY for --control.
    """
    from specproxy import logs
    from specproxy.bench.options import read_modes
    from specproxy.bench.pools import demo_parts
    from specproxy.equivalence.check import Extent
    from specproxy.equivalence.command import PairStart, verify
    from specproxy.equivalence.pairs import demo_pair, own_pair
    from specproxy.settings import LogSettings

    logs.configure(LogSettings(level="warning"))
    console = Console(stderr=True)
    starts: list[PairStart]
    if on_demo and target is None and control is None:
        modes = read_modes(mode)
        parts = demo_parts(console)
        starts = [partial(demo_pair, parts, way, console) for way in modes]
    elif target is not None and control is not None and not on_demo:
        starts = [partial(own_pair, *_own(target, control))]
    else:
        raise ConfigError(
            "There are two ways to check.",
            remedy="Give --demo, or --target URL and --control URL.",
        )
    extent = Extent(num_tokens=tokens, longest_prompt=longest_prompt)
    raise typer.Exit(run_until_told(lambda: verify(starts, extent, console, Console())))


def _own(target: str, control: str) -> "tuple[TargetSettings, TargetSettings]":
    """Clients' settings for both, with the keys that the environment has."""
    from specproxy.settings import load_one_target

    settings = load_one_target(target={"url": control})
    checked = load_one_target(target={"url": target}).target
    return checked.model_copy(update={"api_key": settings.listen.api_key}), settings.target
