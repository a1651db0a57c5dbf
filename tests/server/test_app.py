"""The proxy over its life: clients that leave, targets that come and go, drafts that die."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from specproxy.core.tasks import spawn, stop
from specproxy.route import Mode
from specproxy.testing import Language, ScriptedDrafter, ToyVocabulary, until
from specproxy.testing.rig import Rig, proxied
from specproxy.testing.vocabulary import WORDS

KINDS = ("chat", "completions", "native")
LANGUAGE = Language(mean_length=0)


def asking(kind: str = "chat", num_tokens: int = 400, **more: Any) -> dict[str, Any]:
    if kind == "chat":
        messages = [{"role": "user", "content": "Hi"}]
        return {"messages": messages, "max_tokens": num_tokens, "temperature": 0, **more}
    limit = "n_predict" if kind == "native" else "max_tokens"
    return {"prompt": "Hi", limit: num_tokens, "temperature": 0, **more}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with proxied(LANGUAGE, pass_ms=1.0) as running:
        yield running


async def check_health(rig: Rig) -> None:
    """All is given back, and the next answer is right and speculated for."""
    await rig.rest()
    body = asking(num_tokens=20, stream=True)
    got = await rig.ask("chat", body)
    assert got == await rig.alone("chat", body)
    assert got.headers["x-specproxy-mode"] == "seeding"
    await rig.rest()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_leaves_in_mid_stream(rig: Rig, kind: str) -> None:
    url = rig.server.url + {"chat": "/v1/chat/completions", "native": "/completion"}.get(
        kind, "/v1/completions"
    )
    async with rig.client.post(url, json=asking(kind, stream=True)) as response:
        for _ in range(6):
            await response.content.readuntil(b"\n\n")
        assert rig.server.route.num_running == 1
    await check_health(rig)
    assert rig.server.route.counts.num_generated == 20  # the other one did not finish


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_headers(rig: Rig, stream: bool) -> None:
    rig.target.faults.hang = True
    rig.target.faults.match = lambda request: request.streams
    task = spawn(rig.ask("chat", asking(stream=stream)), name="client")
    await rig.target.wait_for("/v1/chat/completions")
    await stop(task)
    await rig.rest()
    rig.target.faults.clear()
    await check_health(rig)


async def test_a_client_that_leaves_while_its_whole_answer_grows(rig: Rig) -> None:
    task = spawn(rig.ask("chat", asking()), name="client")
    await until(lambda: rig.server.route.num_running and len(rig.target.passes) > 10)
    await stop(task)
    await check_health(rig)


async def test_a_client_that_leaves_while_it_waits_for_a_slot() -> None:
    async with proxied(LANGUAGE, num_slots=2) as rig:
        rig.target.clock.hold()
        first = spawn(rig.ask("native", asking("native", 20)), name="first")
        await until(lambda: rig.server.route.num_running == 1)
        second = spawn(rig.ask("native", asking("native", 21)), name="second")
        third = spawn(rig.ask("native", asking("native", 22)), name="third")
        await until(lambda: rig.server.route.num_waiting == 2)
        await stop(second)
        await until(lambda: rig.server.route.num_waiting == 1)
        rig.target.clock.go()
        assert (await first).json["tokens_predicted"] == 20
        assert (await third).json["tokens_predicted"] == 22
        await check_health(rig)


async def test_a_client_that_leaves_a_request_passed_through(rig: Rig) -> None:
    task = spawn(rig.ask("chat", asking(n=2)), name="client")
    await until(lambda: rig.target.engine.has_work)
    await stop(task)
    await check_health(rig)


async def test_many_clients_that_leave_at_any_time(rig: Rig) -> None:
    rng = random.Random(4)

    async def leave(index: int) -> None:
        kind = KINDS[index % 3]
        body = asking(kind, 60, stream=rng.random() < 0.6)
        task = spawn(rig.ask(kind, body), name=f"client {index}")
        await asyncio.sleep(rng.random() * 0.06)
        await stop(task)

    for start in range(0, 50, 10):
        await asyncio.gather(*(leave(start + index) for index in range(10)))
    await check_health(rig)


async def test_the_proxy_ends_while_an_answer_runs() -> None:
    async with proxied(LANGUAGE, pass_ms=5.0) as rig:
        url = rig.server.url + "/v1/chat/completions"
        response = await rig.client.post(url, json=asking(num_tokens=2000, stream=True))
        await response.content.readuntil(b"\n\n")
        rig.server._runner._shutdown_timeout = 0.05
        await rig.server.__aexit__(None, None, None)
        with pytest.raises(aiohttp.ClientError):
            await response.content.read()
        response.close()
        await rig.rest()


async def test_the_draft_is_killed_in_mid_answer() -> None:
    made = ScriptedDrafter(LANGUAGE, delay_s=0.002)
    async with proxied(LANGUAGE, drafter=made) as rig:
        body = asking(num_tokens=60, stream=True)
        rig.target.clock.hold()
        task = spawn(rig.ask("chat", body), name="client")
        await until(lambda: made.calls)
        await rig.target.clock.step(3)
        made.kill()
        assert not task.done()
        rig.target.clock.go()
        assert await task == await rig.alone("chat", body)
        await rig.rest()
        (status,) = (await rig.send("GET", "/specproxy/status")).json["routes"]
        assert not status["draft_alive"]


async def test_a_target_that_restarts_under_the_proxy() -> None:
    async with proxied(LANGUAGE, probed=True, poll_s=0.02) as rig:
        route = rig.server.route
        await rig.target.down()
        await until(lambda: route.mode is Mode.STARTING)
        assert (await rig.ask("chat", asking())).status == 503
        await rig.target.up()
        await until(route.ready.is_set)
        assert route.mode is Mode.SEEDING
        await check_health(rig)

        odd = Language(ToyVocabulary(words=WORDS[::-1]), mean_length=0)
        await rig.target.down()
        await rig.target.up(odd, "odd-model")
        await until(lambda: route.mode is Mode.PASSTHROUGH)
        assert "do not share their vocabulary" in route.reason
        assert "odd-model" in route.reason
        got = await rig.ask("chat", asking(num_tokens=5))
        assert (got.status, got.headers["x-specproxy-mode"]) == (200, "passthrough")

        await rig.target.down()
        await rig.target.up(LANGUAGE, "toy-model")
        await until(lambda: route.mode is Mode.SEEDING)
        await check_health(rig)


async def test_a_target_that_comes_after_the_proxy() -> None:
    async with proxied(LANGUAGE, ready=False, poll_s=0.02) as rig:
        await rig.target.down()
        await until(lambda: "no answer" in rig.server.route.reason)
        assert rig.server.route.mode is Mode.STARTING
        await rig.target.up()
        await until(rig.server.route.ready.is_set)
        await check_health(rig)


@pytest.mark.parametrize(
    ("flags", "has_draft", "seeding", "reason"),
    [
        ({"has_ngram_pool": False, "num_slots": 2}, True, {}, "--spec-type ngram-mod"),
        ({"n_min": 48, "num_slots": 2}, True, {}, "--spec-ngram-mod-n-min 1"),
        ({"num_slots": 1}, True, {}, "-np 2"),
        ({}, False, {}, "no draft model"),
        ({"num_slots": 2}, True, {"mode": "off"}, "seeding.mode is off"),
    ],
)
async def test_where_it_cannot_speculate_it_says_why_and_passes_through(
    flags: dict[str, Any], has_draft: bool, seeding: dict[str, Any], reason: str
) -> None:
    settings = {"seeding": seeding}
    async with proxied(
        LANGUAGE, has_draft=has_draft, probed=True, settings=settings, **flags
    ) as rig:
        assert rig.server.route.mode is Mode.PASSTHROUGH
        assert reason in rig.server.route.reason
        for kind in KINDS:
            for stream in (True, False):
                body = asking(kind, 20, stream=stream)
                got = await rig.ask(kind, body)
                assert got == await rig.alone(kind, body)
                assert got.headers["x-specproxy-mode"] == "passthrough"
        assert not [one for one in rig.target.requests if one.path == "/apply-template"]


async def test_a_body_arrives_byte_for_byte_behind_its_slot(rig: Rig) -> None:
    raw = b'\n { "stream":true,"temperature":0.0, "prompt" : "Hi \\ud83d\\ude00",\t"max_tokens":3,'
    raw += b'"x_unknown": {"a": [1, 2.50, null]}, "max_tokens":4 }\n'
    headers = {"Content-Type": "application/json"}
    got = await rig.send("POST", "completions", data=raw, headers=headers)
    assert (got.status, got.headers["x-specproxy-mode"]) == (200, "seeding")
    (request,) = rig.target.received("/v1/completions")
    head, slot, rest = request.body.partition(b'"id_slot":0,')
    assert (head + rest, slot) == (raw, b'"id_slot":0,')
    assert head == b"\n {"


async def test_unknown_fields_of_a_whole_request_reach_the_target(rig: Rig) -> None:
    odd = {"x_unknown": {"a": [1, 2.5, None]}, "top_k": 3, "user": "me", "é": "ü"}
    await rig.ask("chat", asking(num_tokens=3, **odd))
    (request,) = [one for one in rig.target.received("/v1/chat/completions") if one.streams]
    assert {**request.json, **odd} == request.json


@pytest.mark.parametrize("encoding", ["Accept-Encoding", "accept-encoding"])
async def test_the_proxy_can_read_what_it_follows(rig: Rig, encoding: str) -> None:
    body = asking(num_tokens=3, stream=True)
    await rig.ask("chat", body, headers={encoding: "gzip, br"})
    (request,) = rig.target.received("/v1/chat/completions")
    assert request.headers.getall("Accept-Encoding") == ["identity"]
