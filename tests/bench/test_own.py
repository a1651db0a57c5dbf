"""A server of the user's own: one server, two arms, and what it may learn between them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.bench.command import bench_own
from specproxy.bench.options import BenchCommand
from specproxy.bench.outputs import Outputs
from specproxy.bench.own import sharing_of
from specproxy.bench.runner import BenchOptions, run
from specproxy.bench.workloads import PROMPTS, WARM_UPS
from specproxy.route import Mode
from specproxy.testing import Language

TARGET = Language(mean_length=60)
SHARED = BenchOptions(num_tokens=16, pause_s=0.0, sharing="learning server")


def asked_chats(target: Any) -> list[str]:
    """The last user message of each streamed chat that reached a server."""
    return [
        request.json["messages"][-1]["content"]
        for request in target.requests
        if request.path == "/v1/chat/completions"
    ]


@pytest.fixture
async def one_server(scripted_arms: Any) -> Any:
    """The same server as it is, and through the proxy."""
    proxied = await scripted_arms.proxied(TARGET)
    server = scripted_arms.targets[proxied.label]
    alone = type(proxied)("target", "target as it is", proxied.server, proxied.server)
    return server, [alone, proxied]


async def test_a_server_that_learns_is_asked_nothing_twice_while_it_is_measured(
    one_server: Any,
) -> None:
    server, arms = one_server
    results = await run(arms, PROMPTS[:6], SHARED)
    asked = asked_chats(server)
    measured = asked[len(WARM_UPS) * len(arms) :][:6]
    assert len(set(measured)) == 6
    assert {one.kind for one in results[0].prompts}.isdisjoint(
        one.kind for one in results[1].prompts
    )
    assert [len(result.answers) for result in results] == [3, 3]
    assert all(result.identical for result in results)
    assert results[1].proxy_counts["num_answers"] == 3


async def test_any_other_server_is_asked_the_same_and_reads_all_anew(scripted_arms: Any) -> None:
    alone = await scripted_arms.plain(TARGET)
    again = type(alone)("native", "the same once more", alone.server, alone.server)
    options = BenchOptions(num_tokens=8, pause_s=0.0, sharing="server")
    results = await run([alone, again], PROMPTS[:2], options)
    for result in results:
        assert result.prompts == PROMPTS[:2]
        assert all(one.num_prompt_read == one.num_prompt for one in result.answers)


async def test_a_server_that_learns_is_compared_unpaired(
    one_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import specproxy.bench.command as module

    _, arms = one_server

    class Started:
        async def __aenter__(self) -> Any:
            return arms, "learning server"

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(module, "own_arms", lambda pool, console: Started())
    file = io.StringIO()
    command = BenchCommand(
        num_tokens=12,
        num_prompts=8,
        pause_s=0.0,
        outputs=Outputs(tmp_path / "own.json", tmp_path / "own.svg"),
    )
    pool: Any = None
    out, quiet = Console(file=file, width=180), Console(quiet=True)
    assert await bench_own(command, pool, quiet, out) == 0
    found = json.loads((tmp_path / "own.json").read_text())
    assert found["paired"] is False
    assert found["link"]["workers"] == 0
    assert [len(arm["answers"]) for arm in found["arms"]] == [4, 4]
    assert found["arms"][1]["speedup_interval"] is not None
    assert "each arm has its own share" in file.getvalue()


def test_what_the_arms_share() -> None:
    assert sharing_of(Mode.SEEDING) == "learning server"
    assert sharing_of(Mode.COORDINATOR) == "server"
