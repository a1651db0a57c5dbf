"""The runs that the README's figures come from, so that one command does them all again.

Invariant: each file of bench/results/ is one of these runs, but for bars.json, which has a command
of its own (a test says so).
"""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from specproxy.bench.command import bench
from specproxy.bench.options import BenchCommand
from specproxy.bench.outputs import Outputs
from specproxy.bench.pools import DemoParts
from specproxy.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One report.

    Attributes:
        name: of its file, without suffix.
        command: without outputs; its line is what one would type.
        plot: file of its drawing, if there is one.
    """

    name: str
    command: BenchCommand
    plot: str | None = None


PUBLISHED = (
    PublishedRun(
        "rtt80",
        BenchCommand(
            modes=("seeding", "coordinator"),
            draft_ns=(8, 16),
            line="specproxy bench --demo --rtt-ms 80 --mode seeding,coordinator --draft-n 8,16",
        ),
    ),
    PublishedRun(
        "fanout-rtt80",
        BenchCommand(
            modes=("fanout",),
            draft_ns=(8,),
            num_prompts=8,
            line="specproxy bench --demo --rtt-ms 80 --mode fanout --draft-n 8 --prompts 8",
        ),
    ),
    PublishedRun(
        "sweep",
        BenchCommand(
            rtt_sweep=(0, 10, 20, 40, 80, 160),
            modes=("seeding", "coordinator"),
            draft_ns=(8,),
            line="specproxy bench --demo --rtt-sweep 0,10,20,40,80,160"
            " --mode seeding,coordinator --draft-n 8",
        ),
        plot="sweep.svg",
    ),
    PublishedRun(
        "coordinator-clients4",
        BenchCommand(
            modes=("coordinator",),
            draft_ns=(8,),
            clients=(4,),
            num_prompts=8,
            num_tokens=64,
            line="specproxy bench --demo --rtt-ms 80 --mode coordinator --draft-n 8 --clients 4"
            " --tokens 64 --prompts 8",
        ),
    ),
    PublishedRun(
        "coordinator-clients8",
        BenchCommand(
            modes=("coordinator",),
            draft_ns=(8,),
            groups=(1, 2),
            clients=(8,),
            num_prompts=8,
            num_tokens=32,
            line="specproxy bench --demo --rtt-ms 80 --mode coordinator --draft-n 8 --clients 8"
            " --groups 1,2 --tokens 32 --prompts 8",
        ),
    ),
)


async def publish_all(folder: Path, parts: DemoParts, console: Console, out: Console) -> int:
    """Do all runs, one after the other, and write its files into `folder` as each is done.

    Returns:
        The exit code: 0 if every answer of every run was the target's own.
    """
    make(folder)
    codes = []
    for number, published in enumerate(PUBLISHED, 1):
        command = in_folder(published, folder)
        command.check()
        console.print(f"[{number}/{len(PUBLISHED)}] {command.line}", markup=False, highlight=False)
        codes.append(await bench(command, parts, console, out))
    return max(codes)


def make(folder: Path) -> None:
    """Raises:
    ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}.") from error


def in_folder(published: PublishedRun, folder: Path) -> BenchCommand:
    """The run's command, with its output."""
    outputs = Outputs(
        json=folder / f"{published.name}.json",
        plot=None if published.plot is None else folder / published.plot,
    )
    return replace(published.command, outputs=outputs)
