"""What a route has learned survives a restart; a file that is no good costs a cold start."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.observed import Observed
from specproxy.core.origins import Origin
from specproxy.core.record import Record
from specproxy.core.tree import Node
from specproxy.server.app import Server
from specproxy.settings import load
from specproxy.state import MAX_BYTES, RouteState
from specproxy.testing import Language, ScriptedDrafter, ScriptedTarget, until
from specproxy.testing.rig import PATHS, fetch

TORN = Node(1, 5, None, 0.4, ((2, 0.38),))


def a_life(folder: Path | None, route: str = "nas") -> tuple[RouteState, AcceptanceModel, Observed]:
    acceptance, observed = AcceptanceModel(), Observed()
    return RouteState(folder, route, acceptance, observed), acceptance, observed


def learn(acceptance: AcceptanceModel, observed: Observed) -> None:
    for _ in range(30):
        acceptance.learn(TORN, 9)
    answer = observed.begin("chat", 0.0)
    answer.passed(1.0)
    answer.said_tokens([1, 2], [Origin.LINE, Origin.MISSED])
    answer.end(2.0)


def kept(folder: Path) -> Path:
    """A file with something learned."""
    state, acceptance, observed = a_life(folder)
    state.recall("draft", "target", 0.0)
    learn(acceptance, observed)
    state.save()
    assert state.path is not None
    return state.path


def starts_cold_with_a_warning(folder: Path) -> None:
    """What is there cannot be recalled; one line says so, and what is learned anew is saved."""
    state, acceptance, observed = a_life(folder)
    with capture_logs() as lines:
        state.recall("draft", "target", 0.0)
    assert [line["log_level"] for line in lines] == ["warning"]
    assert acceptance.saved() == AcceptanceModel().saved()
    learn(acceptance, observed)
    state.save()


def test_the_next_life_starts_warm(tmp_path: Path) -> None:
    path = kept(tmp_path / "new")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    state, acceptance, observed = a_life(tmp_path / "new")
    cold = acceptance.accept(TORN)
    state.recall("draft", "target", 3.0)
    assert acceptance.accept(TORN) < cold / 2
    assert observed.record.kinds["chat"].acceptance_rate == 0.5
    assert observed.record.positions.as_json() == [[1, 1], [0, 1]]
    assert observed.windows(3.0)["1h"].num_answers == 1
    assert observed.total.num_passes == 0  # counters begin anew: they are of a process
    assert state.is_saved


@pytest.mark.parametrize(("route", "draft", "target"), [
    ("other", "draft", "target"), ("nas", "other", "target"), ("nas", "draft", "other"),
])  # fmt: skip
def test_each_pair_of_models_has_its_own(
    tmp_path: Path, route: str, draft: str, target: str
) -> None:
    kept(tmp_path)
    state, acceptance, observed = a_life(tmp_path, route)
    state.recall(draft, target, 0.0)
    assert acceptance.saved() == AcceptanceModel().saved()
    assert not observed.record.kinds


def test_another_target_in_one_life_ends_what_was_learned_of_the_last(tmp_path: Path) -> None:
    state, acceptance, observed = a_life(tmp_path)
    state.recall("draft", "first", 0.0)
    learn(acceptance, observed)
    state.recall("draft", "second", 5.0)
    assert acceptance.saved() == AcceptanceModel().saved()
    assert not observed.record.kinds
    state.recall("draft", "first", 6.0)
    assert observed.record.kinds["chat"].num_answers == 1
    assert acceptance.saved() != AcceptanceModel().saved()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"version": 2}', b"\xff\xfe", b"[" * 100_000, b"1" * MAX_BYTES],
    ids=lambda content: repr(content[:12]),
)
def test_a_file_that_is_no_good_costs_a_cold_start_and_a_line(
    tmp_path: Path, content: bytes
) -> None:
    path = kept(tmp_path)
    path.write_bytes(content)
    starts_cold_with_a_warning(tmp_path)
    assert json.loads(path.read_bytes())["version"] == 1


def test_half_a_good_file_changes_nothing(tmp_path: Path) -> None:
    path = kept(tmp_path)
    content = json.loads(path.read_bytes())
    content["acceptance"]["accepted"][0] = -1
    path.write_text(json.dumps(content))
    state, acceptance, observed = a_life(tmp_path)
    state.recall("draft", "target", 0.0)
    assert acceptance.saved() == AcceptanceModel().saved()
    assert not observed.record.kinds


def test_a_folder_that_cannot_be_written_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    state, acceptance, observed = a_life(blocked / "below")
    state.recall("draft", "target", 0.0)
    learn(acceptance, observed)
    with capture_logs() as lines:
        state.save()
        state.save()
    assert len(lines) == 1


def test_a_folder_that_may_not_be_looked_into_costs_a_cold_start_and_a_line(tmp_path: Path) -> None:
    """A name that is too long is refused as a forbidden folder is, to root as well."""
    starts_cold_with_a_warning(tmp_path / ("x" * 300))


def test_no_file_yet_is_nothing_to_tell(tmp_path: Path) -> None:
    with capture_logs() as lines:
        a_life(tmp_path / "new")[0].recall("draft", "target", 0.0)
    assert lines == []


class WatchedRecord(Record):
    """Remembers which threads have read it."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[int] = []

    def saved(self) -> Mapping[str, Any]:
        self.readers.append(threading.get_ident())
        return super().saved()


async def test_a_thread_writes_what_the_loop_has_read(tmp_path: Path) -> None:
    """Answers add to the record meanwhile; nobody else may go through it."""
    state, acceptance, observed = a_life(tmp_path)
    state.recall("draft", "target", 0.0)
    record = observed.record = WatchedRecord()
    learn(acceptance, observed)
    await state.save_aside()
    await state.save_aside()  # nothing new
    assert record.readers == [threading.get_ident()]
    state, _, observed = a_life(tmp_path)
    state.recall("draft", "target", 3.0)
    assert observed.record.kinds["chat"].num_answers == 1


def test_nothing_is_kept_where_nothing_shall_be() -> None:
    state, acceptance, observed = a_life(None)
    state.recall("draft", "target", 0.0)
    learn(acceptance, observed)
    state.save()
    assert state.path is None


async def test_a_proxy_keeps_what_it_has_learned(tmp_path: Path) -> None:
    language = Language(mean_length=0)
    async with ScriptedTarget(language) as target:
        sections = {
            "target": {"url": target.url},
            "listen": {"port": 0},
            "seeding": {"warm": "never"},
        }
        learned = []
        for _ in range(2):
            server = Server(
                load(None, **sections), ScriptedDrafter(language), state_folder=tmp_path
            )
            async with server:
                await until(server.route.ready.is_set)
                learned.append(server.route.learned.acceptance.saved())
                body = {"prompt": "Hi", "n_predict": 40, "stream": True}
                await _ask(server.url, body)
                await until(lambda server=server: server.route.is_at_rest)
        assert learned[0] == AcceptanceModel().saved() != learned[1]
    (path,) = tmp_path.iterdir()  # noqa: ASYNC240
    assert path.name.startswith("default-")


async def _ask(url: str, body: dict[str, object]) -> None:
    async with aiohttp.ClientSession() as client:
        assert (await fetch(client, "POST", url + PATHS["native"], json=body)).status == 200
