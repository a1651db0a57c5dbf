"""Many at once, and many that leave: nothing stays behind, nobody is hurt."""

import asyncio
import os
import random
import resource
from typing import Any

import aiohttp
import pytest

from specproxy.core.tasks import spawn, stop
from specproxy.testing import Break, Language, StreamFault, drafter, until
from specproxy.testing.rig import PATHS, Rig, proxied
from specproxy.testing.soak import soak

NUM_STREAMS = 1000
NUM_CANCELLED = 1000
NUM_CLIENTS = 50
LANGUAGE = Language(mean_length=0)
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}


@pytest.fixture
def many_descriptors() -> None:
    """Client, proxy and target of each stream are in this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 5 * NUM_STREAMS:
        pytest.skip(f"{most} descriptors are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.load
@pytest.mark.usefixtures("many_descriptors")
async def test_a_thousand_streams_passed_through_at_once() -> None:
    """None ends before all have begun, and in the middle of it other routes answer."""
    flags = {"num_slots": NUM_STREAMS, "n_ctx": 40, "has_ngram_pool": False}
    patient = {"target": {"connect_s": 120}}  # a thousand connections take a busy machine a while
    async with proxied(LANGUAGE, has_draft=False, settings=patient, **flags) as rig:
        right = await rig.alone("chat", {**CHAT, "max_tokens": 3, "stream": True})
        rig.target.clock.hold()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            rig.client, before = client, rig.client
            body = {**CHAT, "max_tokens": 3, "stream": True}
            asked = [spawn(rig.ask("chat", body), name=f"{i}") for i in range(NUM_STREAMS)]
            await rig.target.wait_for(PATHS["chat"], NUM_STREAMS)
            assert (await rig.send("GET", "/v1/models")).status == 200
            assert not any(one.done() for one in asked)
            rig.target.clock.go()
            answers = await asyncio.gather(*asked)
            rig.client = before
        assert all(answer == right for answer in answers)
        await rig.rest()


async def leave(rig: Rig, rng: random.Random) -> None:
    """A request whose client goes away at some time, or before."""
    kind = rng.choice(["chat", "completions", "native", "messages", "responses"])
    body: dict[str, Any] = {"stream": rng.random() < 0.6, "temperature": 0, "max_tokens": 500}
    body |= {"messages": CHAT["messages"], "prompt": "Hi", "input": "Hi"}
    if rng.random() < 0.2:
        body["n"] = 2
    task = spawn(rig.ask(kind, body), name="client")
    await asyncio.sleep(rng.random() ** 2 * 0.1)
    await stop(task)


@pytest.mark.load
async def test_a_thousand_cancellations_leave_all_at_rest() -> None:
    rng = random.Random(7)
    behaviour = drafter.noisy(0.2, random.Random(8))
    async with proxied(LANGUAGE, behaviour, pass_ms=0.5) as rig:
        body = {**CHAT, "max_tokens": 20, "stream": True}
        right = await rig.alone("chat", body)
        assert await rig.ask("chat", body) == right
        await rig.rest()
        num_tasks, num_descriptors = footprint()

        async def clients() -> None:
            for _ in range(NUM_CANCELLED // NUM_CLIENTS):
                await leave(rig, rng)

        await asyncio.gather(*(clients() for _ in range(NUM_CLIENTS)))
        await rig.rest()
        await until(lambda: footprint()[0] <= num_tasks + 3)
        await until(lambda: footprint()[1] <= num_descriptors + 8)  # kept-alive connections
        got = await rig.ask("chat", body)
        assert got == right
        assert got.headers["x-specproxy-mode"] == "seeding"
        metrics = (await rig.send("GET", "/metrics")).raw.decode()
        assert 'specproxy_running{route="default"} 0.0' in metrics
        assert 'specproxy_waiting{route="default"} 0.0' in metrics


def footprint() -> tuple[int, int]:
    """Tasks and descriptors."""
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cancelled_answer_is_closed_at_the_target_within_a_second(stream: bool) -> None:
    """A second of the target's time: of ten passes."""
    async with proxied(LANGUAGE, pass_ms=100.0) as rig:
        asked = spawn(rig.ask("chat", {**CHAT, "max_tokens": 600, "stream": stream}), name="ask")
        await rig.target.wait_for(PATHS["chat"])
        await until(lambda: len(rig.target.passes) > 2)
        await stop(asked)
        num_passes = len(rig.target.passes)
        await rig.rest()
        assert len(rig.target.passes) <= num_passes + 10


async def test_a_target_that_is_silent_does_not_hold_up_other_routes() -> None:
    """Twenty answers hang; what is not waiting for them goes on."""
    async with proxied(LANGUAGE, settings={"target": {"idle_s": 0.5}}) as rig:
        rig.target.faults.stream = StreamFault(Break.SILENCE, after_events=5)
        body = {**CHAT, "max_tokens": 50, "stream": True, "n": 1}
        asked = [spawn(rig.ask("chat", body), name=f"{i}") for i in range(20)]
        await rig.target.wait_for(PATHS["chat"])
        async with asyncio.timeout(30.0):
            for path in ("/v1/models", "/health", "/metrics", "/specproxy/status"):
                assert (await rig.send("GET", path)).status == 200
        rig.target.faults.clear()  # those that still wait for a slot are answered
        answers = await asyncio.gather(*asked)
        broken = [answer for answer in answers if not answer.whole]
        assert 3 <= len(broken) < 20
        assert all("silent" in one.events[-1]["error"]["message"] for one in broken)
        await rig.rest()


@pytest.mark.load
async def test_a_short_soak_leaves_nothing_behind() -> None:
    soaked = await soak(250)
    assert soaked.outcomes.total() == 250
    assert soaked.outcomes["good"] > 90
    assert min(soaked.outcomes[name] for name in ("left", "error in a stream", "status 400")) > 5
    assert soaked.num_spoilt == 0, soaked
    assert soaked.after.num_half_closed <= soaked.before.num_half_closed
    assert soaked.after.num_tasks <= soaked.before.num_tasks + 5
    assert soaked.after.num_descriptors <= soaked.before.num_descriptors + 20
    assert soaked.after.memory_mib <= soaked.before.memory_mib + 30
    assert "descriptors" in str(soaked)
