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
    """

    name: str
    command: BenchCommand


PUBLISHED = (
    PublishedRun(
        "rtt80",
        BenchCommand(draft_ns=(8, 16), line="specproxy bench --demo --rtt-ms 80 --draft-n 8,16"),
    ),
    PublishedRun(
        "rtt20",
        BenchCommand(
            rtt_ms=20.0,
            draft_ns=(8, 16),
            num_prompts=8,
            num_tokens=64,
            line="specproxy bench --demo --rtt-ms 20 --draft-n 8,16 --prompts 8 --tokens 64",
        ),
    ),
    PublishedRun(
        "rtt1",
        BenchCommand(
            rtt_ms=1.0,
            draft_ns=(8, 16),
            num_prompts=8,
            num_tokens=64,
            line="specproxy bench --demo --rtt-ms 1 --draft-n 8,16 --prompts 8 --tokens 64",
        ),
    ),
    PublishedRun(
        "coordinator-rtt80",
        BenchCommand(
            modes=("coordinator",),
            draft_ns=(4, 8, 16),
            line="specproxy bench --demo --rtt-ms 80 --mode coordinator --draft-n 4,8,16",
        ),
    ),
    PublishedRun(
        "coordinator-rtt0",
        BenchCommand(
            rtt_ms=0.0,
            modes=("coordinator",),
            draft_ns=(4, 8, 16),
            num_prompts=10,
            line="specproxy bench --demo --rtt-ms 0 --mode coordinator --draft-n 4,8,16"
            " --prompts 10",
        ),
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
    """Do all runs, one after the other, and write NAME.json into `folder` as each is done.

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
    return replace(published.command, outputs=Outputs(json=folder / f"{published.name}.json"))
