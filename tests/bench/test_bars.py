"""What must be reached, and whether it is: from reports made by hand."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.bench.bar_command import bars_grid, measure_bars, row_json, write_rows
from specproxy.bench.bar_rows import ROWS, rows_of
from specproxy.bench.bars import Bar, BarRow, MeasuredRow, Reached
from specproxy.bench.intervals import Interval
from specproxy.bench.judge import Finding, Verdict
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.options import BenchCommand
from specproxy.bench.report import Report
from specproxy.bench.stats import Answer
from specproxy.errors import ConfigError

RESULTS = Path(__file__).parents[2] / "bench" / "results"
SECONDS = (9.0, 10.0, 11.0, 10.5, 9.5, 10.0)
SEEDING, ON_DRAFT = ProxyKind("seeding"), ProxyKind("seeding-on-draft", 8)
RECORDED = replace(SEEDING, recorded_ms=20.0)
ALONE, NATIVE = Bar(4.0, "alone"), Bar(1.0, "native")
MakeReport = Callable[..., Report]


@pytest.fixture
def measured(made_report: Any, make_answer: Any) -> MakeReport:
    """A report of arms that are so many times as fast as the target alone; their TTFT, too, is so
    many times its own."""

    def answers(times: float, ttft_times: float) -> list[Answer]:
        return [
            make_answer(num_tokens=101, ttft_s=ttft_times, total_s=ttft_times + seconds / times)
            for seconds in SECONDS
        ]

    def made(
        proxies: dict[ProxyKind, float],
        native: float = 3.0,
        ttft_times: float = 1.0,
        verdicts: Any = None,
        front_rtt_ms: float = 0.0,
    ) -> Report:
        said = {"target alone": answers(1.0, 1.0), "own draft, n=8": answers(native, 1.0)}
        said |= {kind.label: answers(times, ttft_times) for kind, times in proxies.items()}
        kinds = {kind.label: kind for kind in proxies}
        report: Report = made_report(
            said, kinds=kinds, verdicts=verdicts, front_rtt_ms=front_rtt_ms
        )
        return report

    return made


def row_of(report: Report, *bars: Bar, name: str = "rtt80") -> MeasuredRow:
    return MeasuredRow(BarRow(name, "a link", BenchCommand(), bars), report)


@pytest.mark.parametrize(
    ("bar", "times", "is_met"),
    [
        (ALONE, 4.2, True),
        (ALONE, 3.9, False),
        (NATIVE, 1.4, True),
        (replace(NATIVE, limit=1.5), 1.4, False),
    ],
)
def test_a_ratio_against_its_bar(measured: Any, bar: Bar, times: float, is_met: bool) -> None:
    row = row_of(measured({SEEDING: 4.2 if bar.base == "native" else times}), bar)
    (one,) = row.bars
    assert one.plain is not None
    assert one.plain.times == pytest.approx(times)
    assert one.plain.median == pytest.approx(times)
    assert (one.plain.is_met, row.is_met) == (is_met, is_met)
    assert one.plain.is_sure
    assert one.recorded is None


def test_a_recorded_draft_stands_beside_the_plain_one_and_meets_nothing_for_it(
    measured: Any,
) -> None:
    row = row_of(measured({SEEDING: 3.5, RECORDED: 4.5}), ALONE)
    (one,) = row.bars
    assert one.plain is not None
    assert one.recorded is not None
    assert (one.plain.is_met, one.recorded.is_met) == (False, True)
    assert not row.is_met
    (line,) = bars_grid([row]).rows
    assert line.cells == [
        *("rtt80", "a link", "seeding >= 4 x the target alone"),
        *("3.50\n3.50-3.50", "3.50", "NO"),
        *("4.50\n4.50-4.50", "4.50", "yes"),
    ]
    assert not row_of(measured({RECORDED: 4.5}), ALONE).is_met


def test_each_way_has_its_own_bar(measured: Any) -> None:
    bars = (NATIVE, Bar(1.2, "native", "seeding-on-draft"))
    row = row_of(measured({SEEDING: 3.3, ON_DRAFT: 3.3, replace(ON_DRAFT, draft_n=4): 3.9}), *bars)
    alone, on_draft = row.bars
    assert alone.plain is not None
    assert on_draft.plain is not None
    assert alone.plain.label == "specproxy (seeding)"
    assert on_draft.plain.label == "specproxy (seeding on draft n=4)"  # the fastest of them
    assert on_draft.plain.times == pytest.approx(1.3)
    assert row.is_met


def test_a_far_arm_is_compared_with_the_same_beside_its_target(measured: Any) -> None:
    proxies = dict.fromkeys((SEEDING, RECORDED), 4.0)
    proxies |= {replace(kind, front_rtt_ms=100.0): 3.8 for kind in (SEEDING, RECORDED)}
    row = row_of(measured(proxies, front_rtt_ms=100.0), Bar(0.9, "near"))
    (one,) = row.bars
    for reached in (one.plain, one.recorded):
        assert reached is not None
        assert reached.times == pytest.approx(0.95)
        assert "100 ms away" in reached.label
        assert "away" not in reached.base_label
    assert row.is_met


@pytest.mark.parametrize(("ttft_times", "is_met"), [(1.04, True), (1.06, False)])
def test_the_time_to_first_token_is_at_most(measured: Any, ttft_times: float, is_met: bool) -> None:
    bar = Bar(1.05, "alone", quantity="ttft")
    row = row_of(measured({SEEDING: 4.0}, ttft_times=ttft_times), bar)
    (one,) = row.bars
    assert one.plain is not None
    assert one.plain.times == pytest.approx(ttft_times)
    assert row.is_met == is_met
    assert bar.title == "TTFT, seeding <= 1.05 x the target alone"


def test_a_bar_within_the_interval_is_not_sure() -> None:
    reached = Reached(ALONE, "a", "b", 4.1, Interval(3.9, 4.3), 4.1)
    assert reached.is_met
    assert not reached.is_sure
    assert replace(reached, interval=Interval(4.0, 4.3)).is_sure
    assert replace(reached, times=3.8, interval=Interval(3.7, 3.9)).is_sure
    assert not replace(reached, interval=None).is_sure


def test_nothing_counts_before_the_answers_are_the_targets_own(measured: Any) -> None:
    wrong = Verdict(Finding(0, "a", "b", None))
    verdicts = {SEEDING.label: [wrong, *[Verdict()] * 5]}
    assert not row_of(measured({SEEDING: 4.2}, verdicts=verdicts), ALONE).is_met


def test_rows_are_chosen_by_name_in_the_tables_order() -> None:
    assert rows_of("all") == list(ROWS)
    assert [row.name for row in rows_of("random80, rtt80")] == ["rtt80", "random80"]
    with pytest.raises(ConfigError, match="rtt7 does not exist"):
        rows_of("rtt80,rtt7")
    for row in rows_of("all", quick=True):
        assert row.command.options.num_tokens <= 32
        assert len(row.command.prompts) <= 8


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_measures_what_its_bars_are_about(row: BarRow) -> None:
    command = row.command
    command.check()
    assert row.line == f"specproxy bench --bars {row.name}"
    assert (command.recorded_ms is None) == (command.draft == "random")
    assert {bar.way for bar in row.bars} == set(command.modes)
    assert not command.is_sweep
    for bar in row.bars:
        assert (bar.base == "native") <= bool(command.draft_ns)
        assert (bar.base == "near") == bool(command.front_rtt_ms)


async def test_rows_are_measured_one_after_the_other_and_kept(
    measured: Any, tmp_path: Path
) -> None:
    path, asked = tmp_path / "new" / "bars.json", []
    out, quiet = io.StringIO(), Console(quiet=True)

    async def measure(command: BenchCommand) -> Report:
        asked.append(command.line)
        report: Report = measured({SEEDING: 4.2, ON_DRAFT: 4.2})
        return report

    code = await measure_bars(rows_of("rtt80,rtt20"), path, measure, quiet, Console(file=out))
    assert code == 0
    assert asked == ["specproxy bench --bars rtt80", "specproxy bench --bars rtt20"]
    assert "seeding on draft >= 1.2 x its own draft" in out.getvalue()
    whole = json.loads((tmp_path / "new" / "bars" / "rtt20.json").read_text(encoding="utf-8"))
    assert whole["command"] == "specproxy bench --bars rtt20"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert list(rows) == ["rtt80", "rtt20"]
    assert rows["rtt80"]["is_met"]
    times = [one["plain"]["times"] for one in rows["rtt80"]["bars"]]
    assert times == pytest.approx([4.2, 1.4, 1.4])
    code = await measure_bars(rows_of("rtt200"), path, measure, quiet, Console(file=out))
    assert code == 1  # 4.2 times, not 6
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(name, row["is_met"]) for name, row in rows.items()] == [
        *(("rtt80", True), ("rtt200", False), ("rtt20", True)),
    ]
    assert rows["rtt200"]["bars"][0]["recorded"] is None


async def test_a_quick_look_writes_nothing(measured: Any, tmp_path: Path) -> None:
    async def measure(command: BenchCommand) -> Report:
        assert command.outputs.paths == []
        report: Report = measured({SEEDING: 4.2})
        return report

    quiet = Console(quiet=True)
    assert await measure_bars(rows_of("random80", quick=True), None, measure, quiet, quiet) == 0


def test_a_file_that_is_none_of_ours_is_begun_anew(measured: Any, tmp_path: Path) -> None:
    path = tmp_path / "bars.json"
    for text in ("no json", "[]", '{"rows": []}'):
        path.write_text(text, encoding="utf-8")
        write_rows(path, [row_of(measured({SEEDING: 4.2}), ALONE)])
        assert list(json.loads(path.read_text(encoding="utf-8"))["rows"]) == ["rtt80"]


def test_a_row_says_what_it_was_measured_with(measured: Any) -> None:
    found = json.loads(json.dumps(row_json(row_of(measured({SEEDING: 4.2}), ALONE), {"cores": 2})))
    assert found["machine"] == {"cores": 2}
    assert [arm["name"] for arm in found["arms"]] == ["target", "native", "specproxy"]
    assert found["bars"][0]["title"] == "seeding >= 4 x the target alone"
    assert found["bars"][0]["plain"]["against"] == "target alone"
    assert found["identical"]


def test_the_published_rows_are_rows_of_the_table() -> None:
    path = RESULTS / "bars.json"
    if not path.exists():
        pytest.skip("not measured yet")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    known = {row.name: row for row in ROWS}
    for name, found in rows.items():
        assert [one["title"] for one in found["bars"]] == [bar.title for bar in known[name].bars]
        assert found["command"] == known[name].line
