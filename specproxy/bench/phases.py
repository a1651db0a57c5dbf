"""Where the time went, by phase, and where the tokens came from: what the proxies counted. Pure.

The phases overlap, for drafting and seeding go on beside the target's passes: they are no parts of
a whole.
"""

from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult
from specproxy.bench.table import Grid, Row, figure
from specproxy.core.tally import Tally

TITLE = "time by phase in ms per token, and where the tokens came from: what the proxies counted"
COLUMNS = (
    *("arm", "decode", "draft", "seed", "pass", "wait", "passes", "tok/pass"),
    *("line", "branch", "pool", "missed", "undrafted", "recorded"),
)
NOTE = (
    "Phases overlap. Decode: between tokens. Draft: the draft worked. Seed: one was on its way."
    " Pass: the target was in one. Wait: for a slot, or for drafts. Recorded: tokens of the"
    " recorded draft that were in the recording; the real one said the rest, which takes a core."
)


def phases_grid(report: Report) -> Grid:
    """A row for each proxy that was measured."""
    rows = [
        Row(_cells(result, result.tally)) for result in report.results if result.tally is not None
    ]
    return Grid(TITLE, COLUMNS, rows, NOTE)


def _cells(result: ArmResult, tally: Tally) -> list[str]:
    spent = (tally.decode_s, tally.draft_s, tally.seed_s, tally.pass_s, tally.wait_s)
    said = (tally.num_line, tally.num_branch, tally.num_pool, tally.num_missed, tally.num_undrafted)
    return [
        result.arm.label,
        *(figure(_per(1e3 * seconds, tally.num_tokens), ".1f") for seconds in spent),
        str(tally.num_passes),
        figure(tally.tokens_per_pass, ".2f"),
        *(figure(_per(count, tally.num_tokens), ".0%") for count in said),
        figure(recorded_share(result), ".0%"),
    ]


def recorded_share(result: ArmResult) -> float | None:
    """Of a recorded draft's tokens, those that were in the recording; None: it is a real draft."""
    if "num_recorded" not in result.proxy_counts:
        return None
    num_recorded = result.proxy_counts["num_recorded"]
    return _per(num_recorded, num_recorded + result.proxy_counts["num_holes"])


def _per(amount: float, count: int) -> float | None:
    return amount / count if count else None
