"""The rows: links and loads, and what seeding must reach on each.

Invariant: each row can be measured alone; what belongs together is one run, its arms asked in turn.
"""

from collections.abc import Sequence
from dataclasses import replace

from specproxy.bench.bars import Bar, BarRow
from specproxy.bench.kinds import Way
from specproxy.bench.options import BenchCommand
from specproxy.errors import ConfigError

DRAFT_MS, DEAR_DRAFT_MS = 20.0, 31.0
"""ms per token of the Q4_1 and of the F16 draft, alone on a core, on the machine that is named in
docs/measurements.md."""
_BOTH: tuple[Way, ...] = ("seeding", "seeding-on-draft")
_NATIVE = BenchCommand(draft_ns=(4, 8, 16), recorded_ms=DRAFT_MS)
"""Beside llama-server's own draft at its best length."""
_ALONE = replace(_NATIVE, draft_ns=())
_RANDOM = replace(_ALONE, draft="random", recorded_ms=None)
"""To record a draft that misses everywhere takes longer than all the rest, and shows nothing: the
proxy soon asks such a draft no more."""
_NEVER_SLOWER = Bar(0.97, "alone")

ROWS = (
    BarRow(
        "rtt80",
        "80 ms, one client",
        replace(_NATIVE, modes=_BOTH, num_prompts=8),
        (Bar(4.0, "alone"), Bar(1.0, "native"), Bar(1.2, "native", "seeding-on-draft")),
    ),
    BarRow(
        "rtt200",
        "200 ms, one client",
        replace(_NATIVE, modes=_BOTH, rtt_ms=200.0, num_prompts=8),
        (Bar(6.0, "alone"), Bar(1.2, "native", "seeding-on-draft")),
    ),
    BarRow(
        "dear80",
        "80 ms, the F16 model as draft in all arms",
        replace(_NATIVE, draft="dear", recorded_ms=DEAR_DRAFT_MS, num_prompts=8),
        (Bar(1.3, "native"),),
    ),
    BarRow(
        "rtt20",
        "20 ms, one client",
        replace(_NATIVE, rtt_ms=20.0, num_prompts=8),
        (Bar(0.95, "native"), _NEVER_SLOWER),
    ),
    BarRow(
        "rtt0",
        "no added delay, one client",
        replace(_NATIVE, rtt_ms=0.0, num_prompts=8),
        (Bar(0.95, "native"), _NEVER_SLOWER),
    ),
    BarRow(
        "front100",
        "80 ms, and 100 ms between proxy and target",
        replace(_ALONE, front_rtt_ms=100.0, num_prompts=8),
        (Bar(0.9, "near"),),
    ),
    BarRow(
        "random80",
        "80 ms, a draft of random weights",
        replace(_RANDOM, num_prompts=8),
        (_NEVER_SLOWER,),
    ),
    BarRow(
        "random0",
        "no added delay, a draft of random weights",
        replace(_RANDOM, rtt_ms=0.0, num_prompts=8),
        (_NEVER_SLOWER,),
    ),
    BarRow(
        "clients4",
        "80 ms, 4 clients",
        replace(_NATIVE, clients=(4,), num_tokens=48),
        (Bar(1.0, "native"),),
    ),
    BarRow(
        "clients8",
        "80 ms, 8 clients",
        replace(_NATIVE, clients=(8,), num_tokens=48),
        (Bar(1.0, "native"),),
    ),
    BarRow(
        "ttft",
        "80 ms, time to first token",
        replace(_ALONE, num_tokens=8),
        (Bar(1.05, "alone", quantity="ttft"),),
    ),
)
ALL = "all"


def rows_of(text: str, *, quick: bool = False) -> Sequence[BarRow]:
    """The rows that `text` names, separated by commas, in the table's order; or all.

    Args:
        quick: least prompts and tokens: whether it works at all.

    Raises:
        ConfigError: one does not exist.
    """
    names = {name.strip() for name in text.split(",")}
    unknown = names - {row.name for row in ROWS} - {ALL}
    if unknown:
        raise ConfigError(
            f"--bars {', '.join(sorted(unknown))} does not exist.",
            remedy=f"What exists: {ALL}, {', '.join(row.name for row in ROWS)}.",
        )
    rows = [row for row in ROWS if ALL in names or row.name in names]
    return [_quick(row) for row in rows] if quick else rows


def _quick(row: BarRow) -> BarRow:
    return replace(row, command=replace(row.command, quick=True, num_prompts=None, num_tokens=None))
