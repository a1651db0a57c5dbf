"""A sweep over scripted servers: every round trip, servers anew, what is written of it."""

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.command import clients_sweep, rtt_sweep, set_rtt_ms, show_sweep
from specproxy.bench.options import BenchCommand
from specproxy.bench.outputs import Outputs
from specproxy.bench.sweep import BY_CLIENTS, Sweep, sweep_grid, sweep_verdict
from specproxy.errors import PoolError
from specproxy.testing import Language, ScriptedTarget

TARGET = Language(mean_length=60)


class ScriptedLink:
    """Makes a scripted target's passes longer by a tenth of what its link would.

    Attributes:
        warmed: token counts that the server had run when the link was first changed.
    """

    def __init__(self, target: ScriptedTarget) -> None:
        self._target = target
        self.warmed: set[int] = set()
        self.rtt_ms = 0.0
        self.num_answered = -1

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        self.warmed = self.warmed or {one.num_tokens for one in self._target.passes}
        self.rtt_ms = rtt_ms
        self._target.clock.pass_ms = 1.0 + rtt_ms / 10


@pytest.fixture
def rounds(scripted_arms: Any) -> list[list[Arm]]:
    """The arms of each round that was started."""
    return []


@pytest.fixture
def start(
    scripted_arms: Any, rounds: list[list[Arm]]
) -> Callable[[int], AbstractAsyncContextManager[list[Arm]]]:
    @asynccontextmanager
    async def started(num_clients: int) -> AsyncIterator[list[Arm]]:
        native = await scripted_arms.plain(TARGET, name="native", label="own draft, n=4")
        arms = [
            await scripted_arms.plain(TARGET, pass_ms=4.0),  # (far more than a request costs)
            replace(native, draft_n=4),
            await scripted_arms.proxied(TARGET),
        ]
        links = [ScriptedLink(scripted_arms.targets[arm.label]) for arm in arms]
        rounds.append([replace(arm, link=link) for arm, link in zip(arms, links, strict=True)])
        yield rounds[-1]

    return started


def command(**given: Any) -> BenchCommand:
    return replace(
        BenchCommand(rtt_sweep=(0, 40), num_tokens=16, num_prompts=2, pause_s=0.0),
        **given,
    )


async def test_a_point_for_every_round_trip_and_arm(
    start: Any, rounds: list[list[Arm]], tmp_path: Path
) -> None:
    outputs = Outputs(tmp_path / "s.json", tmp_path / "s.svg", tmp_path / "s.html")
    done = await rtt_sweep(command(outputs=outputs), start, Console(quiet=True))
    assert done.identical
    found = json.loads((tmp_path / "s.json").read_text())
    assert [(point["rtt_ms"], point["name"]) for point in found["points"]] == [
        (rtt_ms, name) for rtt_ms in (0, 40) for name in ("target", "native", "specproxy")
    ]
    wanted = {"label", "tokens_per_s", "speedup", "against_native", "ttft_ms", "identical", "ties"}
    for point in found["points"]:
        assert wanted <= set(point)
        assert point["identical"] is True
        assert point["tokens"] > 0
    quick, slow = found["points"][0], found["points"][3]
    assert slow["tokens_per_s"] < quick["tokens_per_s"]
    assert found["identical"] is True
    assert found["prompts"][0]["kind"] == "explain"
    svg = (tmp_path / "s.svg").read_text()
    assert all(arm.label in svg for arm in rounds[0])
    assert "Benchmark over round trips" in (tmp_path / "s.html").read_text()


async def test_every_round_has_servers_of_its_own_warmed_on_the_quick_link(
    start: Any, rounds: list[list[Arm]], scripted_arms: Any
) -> None:
    await rtt_sweep(command(), start, Console(quiet=True))
    first, second = rounds
    assert not {arm.server.name for arm in first} & {arm.server.name for arm in second}
    for arms in rounds:
        for arm in arms:
            assert isinstance(arm.link, ScriptedLink)
            assert len(arm.link.warmed) > 3
        native = arms[1].link
        assert isinstance(native, ScriptedLink)
        assert {1, 2, 3, 4, 5} <= native.warmed


async def test_what_is_finished_is_kept_when_a_round_fails(start: Any, tmp_path: Path) -> None:
    num_started = 0

    @asynccontextmanager
    async def once(num_clients: int) -> AsyncIterator[list[Arm]]:
        nonlocal num_started
        num_started += 1
        if num_started > 1:
            raise PoolError("A worker did not come up.")
        async with start(num_clients) as arms:
            yield arms

    path = tmp_path / "s.json"
    with pytest.raises(PoolError):
        await rtt_sweep(command(outputs=Outputs(path)), once, Console(quiet=True))
    assert {point["rtt_ms"] for point in json.loads(path.read_text())["points"]} == {0}


async def test_a_link_that_is_not_ours_is_said(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    with pytest.raises(PoolError, match="target alone cannot be changed"):
        await set_rtt_ms([plain], 20.0)


@pytest.fixture
def made_sweep(made_report: Any, make_answer: Any) -> Sweep:
    """The target alone is the fastest at 0 ms, the proxy from 20 ms on."""

    def report(rtt_ms: float, alone_s: float, proxied_s: float) -> Any:
        def six(total_s: float, accepted: int = 0) -> list[Any]:
            one = make_answer(
                num_tokens=11, num_proposed=accepted, num_accepted=accepted, total_s=total_s
            )
            return [one] * 6

        answers = {"target alone": six(alone_s), "specproxy (seeding)": six(proxied_s, 6)}
        return made_report(answers, rtt_ms=rtt_ms)

    return Sweep([report(0, 1.1, 1.6), report(20, 2.1, 1.1), report(80, 8.1, 2.1)])


def test_the_verdict_says_from_where_on_it_pays(made_sweep: Sweep) -> None:
    first, second, *rest = sweep_verdict(made_sweep)
    assert first == "0 ms: target alone is the fastest."
    assert second == (
        "20 to 80 ms: specproxy (seeding) is the fastest, 2.0 to 4.0 times the target alone."
    )
    assert all(line.startswith("At 80 ms: ") for line in rest)
    assert "At 80 ms: Speculation pays here" in rest[0]


def test_lines_hold_an_arm_each(made_sweep: Sweep) -> None:
    alone, proxied = made_sweep.lines
    assert (alone.label, proxied.label) == ("target alone", "specproxy (seeding)")
    assert alone.values == [0, 20, 80]
    assert alone.speeds == pytest.approx([10.0, 5.0, 1.25])
    assert all(interval is not None for interval in proxied.intervals)


def test_the_table_has_every_point(made_sweep: Sweep) -> None:
    file = io.StringIO()
    show_sweep(made_sweep, Console(file=file))
    text = file.getvalue()
    assert text.count("specproxy (seeding)  ") == 3
    assert "4.00" in text
    assert "20 to 80 ms: specproxy (seeding) is the fastest" in text


async def test_a_round_for_every_number_of_clients(
    start: Any, rounds: list[list[Arm]], tmp_path: Path
) -> None:
    outputs = Outputs(tmp_path / "c.json", page=tmp_path / "c.html")
    asked = command(rtt_sweep=(), clients=(1, 2), num_prompts=4, outputs=outputs)
    done = await clients_sweep(asked, start, Console(quiet=True))
    assert done.identical
    assert len(rounds) == 2
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["axis"] == "clients"
    assert [point["clients"] for point in found["points"]] == [1, 1, 1, 2, 2, 2]
    alone, together = done.rounds
    assert (alone.options.by_throughput, together.options.by_throughput) == (True, True)
    one, two = alone.alone.tokens_per_s, together.alone.tokens_per_s
    assert one is not None
    assert two is not None
    assert two > 1.2 * one  # a batch shares passes
    assert sweep_grid(done).columns[1] == "clients"
    page = (tmp_path / "c.html").read_text()
    assert "Benchmark over clients" in page
    assert "requests at a time" in page[page.index("<svg") : page.index("</svg>")]


def test_the_verdict_says_up_to_how_many_clients_it_pays(
    made_report: Any, make_answer: Any
) -> None:
    def report(num_clients: int, alone_s: float, proxied_s: float) -> Any:
        def eight(total_s: float, accepted: int = 0) -> list[Any]:
            one = make_answer(
                num_tokens=10, num_proposed=accepted, num_accepted=accepted, total_s=total_s
            )
            return [one] * 8

        answers = {"target alone": eight(alone_s), "specproxy (seeding)": eight(proxied_s, 6)}
        return made_report(answers, num_clients=num_clients)

    done = Sweep([report(1, 2.0, 1.0), report(4, 2.5, 2.0), report(8, 3.0, 6.0)], BY_CLIENTS)
    said = sweep_verdict(done)
    assert said[0] == (
        "1 to 4 at a time: specproxy (seeding) is the fastest, 2.0 to 1.2 times the target alone."
    )
    assert said[1] == "8 at a time: target alone is the fastest."
    assert said[2] == (
        "target alone: 5.0 tokens/s with one client, 26.7 with 8 clients (5.3 times)."
    )
    assert said[4] == (
        "Speculation pays with up to 4 at a time; with 8 a batch of plain answers shares the"
        " passes as well."
    )
