"""The page's files are open and hold no data; its events are for who has the key."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest

from specproxy.core.tasks import spawn, stop
from specproxy.server.page.files import FILES
from specproxy.target.sse import SSEParser
from specproxy.testing import Language, ScriptedDrafter, drafter, until
from specproxy.testing.coordinated import coordinated
from specproxy.testing.rig import Rig, proxied

LANGUAGE = Language(mean_length=0)
SECRET = "The sea is deep"
ASKED = {"prompt": SECRET, "n_predict": 300, "temperature": 0, "stream": True}
KEY = {"Authorization": "Bearer page-key"}
KEYED = {"listen": {"api_key": "page-key"}}
TICK_S = 0.02
"""From one event to the next, here."""


async def events(
    rig: Any, headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, Any]]:
    """(name, content) of the page's events."""
    rig.server.watchers.tick_s = TICK_S
    parser = SSEParser()
    url = f"{rig.server.url}/specproxy/events"
    async with rig.client.get(url, headers=headers) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                yield event.name, json.loads(event.data)


async def running(
    rig: Any, headers: Mapping[str, str] | None = None, *, num_tokens: int = 20
) -> dict[str, Any]:
    """What the events say of the route once an answer shows `num_tokens`."""
    async with aclosing(events(rig, headers)) as heard, asyncio.timeout(60):
        async for name, content in heard:
            (route,) = content["routes"]
            answers = route["answers"] if name == "present" else []
            if any(answer["num_tokens"] >= num_tokens for answer in answers):
                return {**route, "texts": content["texts"]}
    raise AssertionError("the stream ended")


async def no_answer_shown(rig: Any) -> None:
    """Wait until the events show none: they do only while it runs."""
    async with aclosing(events(rig)) as heard, asyncio.timeout(60):
        async for name, content in heard:
            if name == "present" and content["routes"][0]["answers"] == []:
                return
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("path", FILES)
async def test_files_are_open_and_strict(path: str) -> None:
    async with proxied(settings=KEYED, ready=False) as rig:
        got = await rig.send("GET", path)
    assert got.status == 200
    assert got.raw
    policy = got.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"


async def test_files_ask_nobody_else_and_name_no_data() -> None:
    async with proxied(ready=False) as rig:
        bodies = [(await rig.send("GET", path)).raw.decode() for path in FILES]
        here = (await rig.send("GET", "/specproxy")).headers["Location"]
    urls = {url for body in bodies for url in re.findall(r"https?://[^\s\"'`)]+", body)}
    assert urls == {"http://www.w3.org/2000/svg"}  # the name of a format
    assert not any("innerHTML" in body or " style=" in body for body in bodies)
    assert here == "specproxy/"


async def test_data_is_for_who_has_the_key() -> None:
    async with proxied(settings=KEYED) as rig:
        for path in ("/specproxy/events", "/specproxy/status", "/metrics"):
            assert (await rig.send("GET", path)).status == 401
            assert (await rig.send("GET", path, headers={"x-api-key": "wrong"})).status == 401
        async with aclosing(events(rig, KEY)) as heard:
            assert (await anext(heard))[0] == "present"
            name, content = await anext(heard)
    assert name == "history"
    assert set(content["routes"][0]) == {"name", "15m", "24h"}


async def test_a_running_answer_shows_with_the_origin_of_its_text() -> None:
    made = ScriptedDrafter(LANGUAGE, drafter.noisy(0.2, random.Random(1)))
    async with proxied(LANGUAGE, drafter=made, pass_ms=20.0) as rig:
        asking = spawn(rig.ask("native", ASKED), name="ask")
        route = await running(rig, num_tokens=40)
        rig.target.clock.pass_ms = 0.0  # enough was seen
        answered = (await asking).text
        await rig.rest()
        await no_answer_shown(rig)
    (answer,) = route["answers"]
    assert answer["kind"] == "native"
    assert SECRET in answer["prompt"]
    shown = "".join(text for _, text in answer["spans"])
    assert shown
    assert answered.startswith(shown)
    assert {"line", "missed"} <= {origin for origin, _ in answer["spans"]}
    assert answer["total"]["num_passes"] > 0


async def test_before_a_coordinator_it_shows_as_well() -> None:
    async with coordinated(LANGUAGE, drafter.noisy(0.3, random.Random(1)), pass_ms=20.0) as rig:
        asking = spawn(rig.ask("native", ASKED), name="ask")
        route = await running(rig)
        rig.coordinator.engine.pass_ms = 0.0  # enough was seen
        await asking
        await until(rig.at_rest)
    (answer,) = route["answers"]
    assert SECRET in answer["prompt"]
    assert "line" in {origin for origin, _ in answer["spans"]}
    assert route["observed"]["policy"]["nodes_awaited"] is not None


@pytest.mark.parametrize(
    ("settings", "headers", "shown"),
    [
        ({}, {}, True),
        ({}, {"Host": "localhost"}, True),
        ({}, {"Host": "rebound.example.org"}, False),
        ({"page": {"texts": False}}, {}, False),
        (KEYED, {**KEY, "Host": "proxy.example.org"}, True),
        ({**KEYED, "page": {"texts": False}}, KEY, False),
        ({"listen": {"host": "0.0.0.0", "allow_public_without_key": True}}, {}, False),
    ],
)
async def test_who_sees_texts(
    settings: dict[str, Any], headers: dict[str, str], shown: bool
) -> None:
    async with proxied(LANGUAGE, settings=settings, pass_ms=20.0) as rig:
        asking = spawn(rig.ask("native", ASKED, headers=KEY), name="ask")
        route = await running(rig, headers)
        await stop(asking)
        await rig.rest()
    (answer,) = route["answers"]
    assert route["texts"] is shown
    assert bool(answer["prompt"]) is bool(answer["spans"]) is shown
    assert answer["num_tokens"] >= 20
    assert shown or SECRET not in str(route)


async def test_the_status_never_has_texts() -> None:
    async with proxied(LANGUAGE, pass_ms=20.0) as rig:
        asking = spawn(rig.ask("native", ASKED), name="ask")
        await running(rig)
        got = await rig.send("GET", "/specproxy/status")
        await stop(asking)
        await rig.rest()
    assert got.status == 200
    assert SECRET not in got.raw.decode()
    assert "spans" not in got.raw.decode()


async def test_watchers_are_few_and_leave_nothing(rig_of_few: Rig) -> None:
    rig = rig_of_few
    watchers = [events(rig) for _ in range(2)]
    for watcher in watchers:
        await anext(watcher)
    refused = await rig.send("GET", "/specproxy/events")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
    for watcher in watchers:
        await watcher.aclose()
    async with asyncio.timeout(10):
        while (await _status(rig)) != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_proxy_stops_while_somebody_watches() -> None:
    async with proxied(LANGUAGE) as rig:
        watcher = events(rig)
        await anext(watcher)
        async with asyncio.timeout(5):
            await rig.server.__aexit__()
            assert [name async for name, _ in watcher]


@pytest.fixture
async def rig_of_few() -> AsyncIterator[Rig]:
    async with proxied(LANGUAGE) as rig:
        rig.server.watchers.max_watchers = 2
        yield rig


async def _status(rig: Rig) -> int:
    async with rig.client.get(f"{rig.server.url}/specproxy/events") as response:
        assert isinstance(response, aiohttp.ClientResponse)
        return response.status
