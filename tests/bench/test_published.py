"""The figures in README.md and docs/measurements.md are those of bench/results/."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from specproxy.bench.published import PUBLISHED, in_folder

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
FIELDS = {
    "tokens/s": ("tokens_per_s", 1),
    "against the target alone": ("speedup", 1),
    "TTFT, ms": ("ttft_ms", 1),
    "accepted": ("acceptance_rate", 100),
    "tokens per pass": ("tokens_per_pass", 1),
}
WAYS = ("specproxy (seeding)", "specproxy (coordinator)")
Row = dict[str, str]


def tables(text: str) -> Iterator[tuple[int, list[Row]]]:
    """Where each table of a Markdown text ends, and its rows by heading."""
    for found in re.finditer(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *body = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in found[0].splitlines()
        ]
        yield found.end(), [dict(zip(head, cells, strict=True)) for cells in body]


def report(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def arm_of(found: Any, label: str) -> Any:
    """The arm that a row names: "own draft model, n = 8", "specproxy (coordinator)", ..."""
    arms = found["arms"] + found["other_arms"]
    draft_n = re.search(r"n ?= ?(\d+)", label)
    if draft_n:
        return next(one for one in arms if one.get("draft_n") == int(draft_n[1]))
    way = re.search(r"\((.*)\)", label)
    name = "target" if "alone" in label else "specproxy"
    return next(
        one for one in arms if one["name"] == name and (way is None or way[1] in one["label"])
    )


def assert_shown(shown: str, value: float | None) -> None:
    """`shown` is `value`, rounded as it is written."""
    if not shown:
        assert value is None
        return
    number = shown.removesuffix("%").strip()
    assert value is not None
    digits = len(number.partition(".")[2])
    assert abs(float(number) - value) <= 0.5001 * 10**-digits, (shown, value)


def check_row(row: Row, arm: Any) -> None:
    for heading, (field, times) in FIELDS.items():
        if heading in row:
            value = arm[field]
            assert_shown(row[heading], None if value is None else value * times)
    said = row["identical"]
    assert said.startswith("yes") == arm["identical"]
    ties = row.get("ties") or (re.findall(r"\((\d+) tie", said) or ["0"])[0]
    assert int(ties) == arm["ties"]


def test_the_readme_shows_the_published_figures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    num_rows = 0
    for end, rows in tables(text):
        if "tokens/s" not in rows[0]:
            continue
        named = re.search(r"bench/results/([\w-]+)\.json", text[end:])
        assert named, "a table of figures names its report below it"
        for row in rows:
            check_row(row, arm_of(report(named[1]), row["arm"]))
            num_rows += 1
    assert num_rows >= 4


def test_the_measurements_by_link_are_the_published_ones() -> None:
    text = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    points = {(one["rtt_ms"], one["label"]): one for one in report("sweep")["points"]}
    num_rows = 0
    for _, rows in tables(text):
        if "round trip per worker" in rows[0] and "tokens per pass" in rows[0]:
            for row in rows:
                rtt_ms = float(row["round trip per worker"].removesuffix("ms"))
                check_row(row, points[rtt_ms, row["arm"]])
                num_rows += 1
    assert num_rows == len(points)


def test_the_measurements_by_kind_are_the_published_ones() -> None:
    text = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    (rows,) = (rows for _, rows in tables(text) if "kind" in rows[0])
    found = report("rtt80")
    for row in rows:
        for label in ("target alone", "own draft, n = 16", *WAYS):
            answers = arm_of(found, label)["answers"]
            answer = next(one for one in answers if one["kind"] == row["kind"])
            assert_shown(row[label], answer["tokens_per_s"])


def test_every_report_is_a_published_run() -> None:
    """bars.json apart: see test_bars.py."""
    written = {path.stem for path in RESULTS.glob("*.json")}
    assert written <= {*(published.name for published in PUBLISHED), "bars"}


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda one: one.name)
def test_a_published_run_can_be_done_again(published: Any, tmp_path: Path) -> None:
    command = in_folder(published, tmp_path)
    command.check()
    assert command.outputs.json == tmp_path / f"{published.name}.json"
    found = report(published.name)
    option, link = "--rtt-ms", [command.rtt_ms]
    measured = [found["link"]["rtt_ms"]] if "link" in found else []
    if command.rtt_sweep:
        option, link = "--rtt-sweep", list(command.rtt_sweep)
        measured = [rtt_ms for rtt_ms, _ in groupby(one["rtt_ms"] for one in found["points"])]
    assert measured == link
    named = ",".join(f"{rtt_ms:g}" for rtt_ms in link)
    assert command.line.startswith(f"specproxy bench --demo {option} {named} ")
    assert ",".join(map(str, command.draft_ns)) in command.line
    asked = [one["kind"] for one in found["prompts"]]
    assert asked == [prompt.kind for prompt in command.prompts]
    assert found["tokens_per_answer"] == command.options.num_tokens
    assert found["mode"] == command.mode
    if published.plot is not None:
        assert (RESULTS / published.plot).read_text(encoding="utf-8").count("<svg") == 1
