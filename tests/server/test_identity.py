"""One id for a request: in the log, at the target, in the answer."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import LogCapture

from specproxy.server.identity import read_id
from specproxy.testing import Break, StreamFault
from specproxy.testing.rig import Rig, proxied

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 6}


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What is logged, with what is bound."""
    before = structlog.get_config()
    capture = LogCapture()
    structlog.configure(processors=[merge_contextvars, capture])
    yield capture.entries  # type: ignore[misc]
    structlog.configure(**before)


def at_target(rig: Rig) -> set[str | None]:
    return {
        one.headers.get("x-request-id")
        for one in rig.target.requests
        if one.path == "/v1/chat/completions"
    }


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"n": 2}], ids=str)
async def test_the_clients_id_goes_all_the_way(
    body: dict[str, object], lines: list[dict[str, Any]]
) -> None:
    async with proxied() as rig:
        headers = {"X-Request-Id": "abc-1"}
        got = await rig.ask("chat", {**CHAT, **body}, headers=headers)
        await rig.rest()
        assert at_target(rig) == {"abc-1"}
    assert got.headers.getall("x-request-id") == ["abc-1"]
    told = [line for line in lines if line["event"] == "answer"]
    assert all(line["request_id"] == "abc-1" for line in told)
    assert bool(told) is ("n" not in body)
    assert not any("request_id" in line for line in lines if line["event"] == "route")


@pytest.mark.parametrize("given", [None, "", "has space", "x" * 129, "ü", "a\tb"])
def test_an_id_is_made_where_there_is_no_usable_one(given: str | None) -> None:
    made = {read_id(given) for _ in range(3)}
    assert len(made) == 3
    assert given not in made


async def test_each_request_of_a_connection_has_its_own(lines: list[dict[str, Any]]) -> None:
    async with proxied() as rig:
        answers = [await rig.ask("chat", CHAT) for _ in range(3)]
        await rig.rest()
        ids = {got.headers["x-request-id"] for got in answers}
        assert len(ids) == 3
        assert at_target(rig) == ids
        assert {line["request_id"] for line in lines if line["event"] == "answer"} == ids


async def test_errors_have_it_too(lines: list[dict[str, Any]]) -> None:
    async with proxied(settings={"listen": {"api_key": "key"}}) as rig:
        got = await rig.ask("chat", CHAT, headers={"x-request-id": "no-key"})
        assert (got.status, got.headers["x-request-id"]) == (401, "no-key")
        rig.target.faults.stream = StreamFault(Break.RESET, after_events=1)
        headers = {"x-request-id": "broken", "x-api-key": "key"}
        await rig.ask("chat", {**CHAT, "stream": True}, headers=headers)
        await rig.rest()
    (line,) = [line for line in lines if line["event"] == "an answer broke off"]
    assert line["request_id"] == "broken"
