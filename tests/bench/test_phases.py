"""What the proxies counted, since when, and how it is shown."""

from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from specproxy.bench.counted import ProxyCounts
from specproxy.bench.export import to_json
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.phases import COLUMNS, phases_grid
from specproxy.core.tally import Tally

TALLY = Tally(
    num_answers=2,
    num_passes=25,
    num_tokens=100,
    num_line=80,
    num_branch=5,
    num_pool=5,
    num_missed=6,
    num_undrafted=4,
    num_timed=98,
    decode_s=4.0,
    draft_s=3.0,
    seed_s=2.5,
    pass_s=3.5,
    wait_s=0.1,
)


def status(tally: Tally, **counts: int) -> dict[str, Any]:
    """Of a route."""
    return {"counts": counts, "observed": {"windows": {"24h": tally.as_json()}}}


def test_what_was_counted_since() -> None:
    before = ProxyCounts.of_route(status(Tally(num_answers=1, draft_s=1.0), num_answers=1))
    after = ProxyCounts.of_route(status(Tally(num_answers=3, draft_s=1.5), num_answers=4, more=2))
    since = after.since(before)
    assert since.counts == {"num_answers": 3, "more": 2}
    assert since.tally == Tally(num_answers=2, draft_s=0.5)
    assert since.num_answers == 2


def test_every_figure_of_the_status_is_read() -> None:
    read = ProxyCounts.of_route(status(TALLY, num_answers=2)).tally
    assert read == TALLY
    assert all(getattr(TALLY, item.name) for item in fields(Tally))


def test_a_row_for_each_proxy(made_report: Any, make_answer: Any) -> None:
    label = "specproxy (seeding)"
    report = made_report(
        {"target alone": [make_answer()], label: [make_answer()]},
        kinds={label: ProxyKind("seeding")},
        tallies={label: TALLY},
    )
    (row,) = phases_grid(report).rows
    shown = dict(zip(COLUMNS, row.cells, strict=True))
    assert shown["arm"] == label
    assert [shown[name] for name in ("decode", "draft", "seed", "pass", "wait")] == [
        *("40.0", "30.0", "25.0", "35.0", "1.0"),
    ]
    assert [shown[name] for name in ("line", "branch", "pool", "missed", "undrafted")] == [
        *("80%", "5%", "5%", "6%", "4%"),
    ]
    assert (shown["passes"], shown["tok/pass"], shown["recorded"]) == ("25", "4.00", "-")
    alone, proxied = to_json(report, {})["arms"]
    assert "tally" not in alone
    assert proxied["tally"] == asdict(TALLY)
    assert proxied["kind"]["way"] == "seeding"


@pytest.mark.parametrize(("num_recorded", "num_holes", "shown"), [(9, 1, "90%"), (0, 0, "-")])
def test_how_much_was_recorded(
    made_report: Any, make_answer: Any, num_recorded: int, num_holes: int, shown: str
) -> None:
    report = made_report(
        {"target alone": [make_answer()], "specproxy": [make_answer()]},
        tallies={"specproxy": TALLY},
    )
    counts = {"num_recorded": num_recorded, "num_holes": num_holes}
    results = [report.results[0], replace(report.results[1], proxy_counts=counts)]
    assert phases_grid(replace(report, results=results)).rows[0].cells[-1] == shown
