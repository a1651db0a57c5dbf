"""Three targets, three verdicts."""

import io
import json
import random
from typing import Any

import pytest
from rich.console import Console

from specproxy.errors import TargetError
from specproxy.probe.command import probe_command
from specproxy.probe.measure import measure
from specproxy.probe.report import Report
from specproxy.probe.table import as_json, as_table
from specproxy.probe.verdicts import best, command, verdicts
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing import ScriptedTarget
from specproxy.testing.coordinator import ScriptedCoordinator


async def probed(target: ScriptedTarget | ScriptedCoordinator) -> Report:
    async with TargetClient(TargetSettings(url=target.url)) as client:
        return await measure(client, target.url, random.Random(1), lambda _: None)


async def report_of(**flags: Any) -> Report:
    async with ScriptedTarget(**flags) as target:
        return await probed(target)


def ways(report: Report) -> dict[str, bool]:
    return {verdict.way: verdict.works for verdict in verdicts(report)}


async def test_a_full_target() -> None:
    report = await report_of(num_slots=10, n_match=5, n_max=12)
    assert (report.pool.n_match, report.pool.n_min, report.pool.n_max) == (5, 1, 12)
    assert not report.pool.n_max_is_least
    assert ways(report) == {
        "coordinator": False,
        "seeding": True,
        "fanout": True,
        "passthrough": True,
    }
    assert best(report).way == "seeding"
    assert not report.lacking


async def test_one_without_a_pool() -> None:
    report = await report_of(num_slots=10, has_ngram_pool=False)
    assert report.pool.n_match is None
    assert best(report).way == "fanout"
    (seeding,) = [verdict for verdict in verdicts(report) if verdict.way == "seeding"]
    assert "--spec-type ngram-mod" in seeding.remedy


async def test_one_with_a_single_slot() -> None:
    report = await report_of(num_slots=1)
    assert ways(report)["seeding"] is ways(report)["fanout"] is False
    assert best(report).way == "passthrough"
    for verdict in verdicts(report)[1:3]:
        assert "-np" in verdict.remedy


async def test_a_coordinator() -> None:
    async with ScriptedCoordinator() as coordinator:
        report = await probed(coordinator)
    assert best(report).way == "coordinator"
    assert command(report) == ""


async def test_a_long_n_min_is_told_from_no_pool() -> None:
    report = await report_of(num_slots=3, n_min=48)
    (seeding,) = [verdict for verdict in verdicts(report) if verdict.way == "seeding"]
    assert not seeding.works
    assert "n-min 1" in seeding.remedy


async def test_n_min_is_found() -> None:
    report = await report_of(num_slots=3, n_min=4)
    assert report.pool.n_min == 4


async def test_what_an_old_build_lacks_is_said() -> None:
    lacking = ("/apply-template", "/slots", "/metrics")
    report = await report_of(num_slots=4, lacking=lacking)
    assert set(report.lacking) == set(lacking)
    assert "too old" in report.lacking["/apply-template"]
    assert best(report).way == "seeding"


async def test_no_llama_server_is_said() -> None:
    async with ScriptedTarget(lacking=("/props",)) as target:
        with pytest.raises(TargetError):
            await probed(target)


async def test_table_and_json() -> None:
    report = await report_of(num_slots=4)
    console = Console(width=200, record=True)
    console.print(as_table(report))
    text = console.export_text()
    for part in ("n_match 4", "seeding", "llama-server --model", "--kv-unified", "new number"):
        assert part in text
    said = json.loads(json.dumps(as_json(report)))
    assert said["best"] == "seeding"
    assert said["target"]["speeds"]["pass_s"]["8"] > 0


async def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    async with ScriptedTarget(num_slots=3) as target:
        settings = TargetSettings(url=target.url)
        assert await probe_command(settings, Console(stderr=True), Console(), json_output=True) == 0
    assert json.loads(capsys.readouterr().out)["best"] == "seeding"


async def test_the_proposed_command_is_whole_on_a_narrow_terminal() -> None:
    file = io.StringIO()
    async with ScriptedTarget(num_slots=3) as target:
        proposed = command(await probed(target))
        settings = TargetSettings(url=target.url)
        narrow = Console(file=file, width=60)
        assert await probe_command(settings, Console(file=io.StringIO()), narrow) == 0
    assert len(proposed) > 100
    assert f"  {proposed}\n" in file.getvalue()
