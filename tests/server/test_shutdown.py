"""Told to stop: running answers may end; told again: they end at once, with an error."""

import asyncio
import contextlib
import os
import signal
import sys
import time

import aiohttp
import pytest

from specproxy.core.tasks import spawn
from specproxy.testing import Language, ScriptedTarget, until
from specproxy.testing.rig import PATHS, Rig, fetch, proxied

LANGUAGE = Language(mean_length=0)
BODY = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 2000,
    "stream": True,
    "temperature": 0,
}
QUICK_S = 4.0
"""Well below the time that a drain takes."""


async def running(rig: Rig, body: dict[str, object]) -> asyncio.Task[object]:
    asked = spawn(rig.ask("chat", body), name="ask")
    await until(lambda: len(rig.target.passes) > 2)
    return asked


@pytest.mark.parametrize("body", [BODY, {**BODY, "n": 2}], ids=["seeding", "passthrough"])
async def test_a_server_in_a_hurry_ends_streams_with_an_error(body: dict[str, object]) -> None:
    async with proxied(LANGUAGE, pass_ms=5.0) as rig:
        asked = await running(rig, body)
        began_s = time.monotonic()
        closing = spawn(rig.server.__aexit__(None, None, None), name="close")
        await asyncio.sleep(0.1)
        assert not closing.done()
        assert not asked.done()  # drained, not cut
        closing.cancel()
        got = await asked
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert time.monotonic() - began_s < QUICK_S
        assert not got.whole  # type: ignore[attr-defined]
        assert "specproxy was stopped" in got.events[-1]["error"]["message"]  # type: ignore[attr-defined]
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("num_choices", [1, 2], ids=["seeding", "passthrough"])
async def test_answers_that_have_not_begun_are_told_too(stream: bool, num_choices: int) -> None:
    settings = {"listen": {"ping_s": 0.05}}
    async with proxied(LANGUAGE, num_slots=2, settings=settings) as rig:
        rig.target.faults.hang = True
        body = {**BODY, "stream": stream, "n": num_choices}
        asked = [spawn(rig.ask("chat", body), name="ask")]
        await rig.target.wait_for(PATHS["chat"])
        asked.append(spawn(rig.ask("chat", {**body, "n": 1}), name="ask"))
        if num_choices == 1:  # and one that waits for the slot
            await until(lambda: rig.server.route.num_waiting == 1)
        await asyncio.sleep(0.15)
        began_s = time.monotonic()
        closing = spawn(rig.server.__aexit__(None, None, None), name="close")
        await asyncio.sleep(0.1)
        closing.cancel()
        for one in asked:
            got = await one
            assert (got.status, got.whole) == ((200, False) if stream else (503, True))
            error = got.events[-1]["error"] if stream else got.json["error"]
            assert "specproxy was stopped" in error["message"]
        await asyncio.wait([closing])
        assert time.monotonic() - began_s < QUICK_S
        await rig.rest()


async def test_an_answer_that_ends_in_time_is_whole() -> None:
    async with proxied(LANGUAGE, pass_ms=5.0) as rig:
        body = {**BODY, "max_tokens": 40}
        asked = await running(rig, body)
        await rig.server.__aexit__(None, None, None)
        assert await asked == await rig.alone("chat", body)


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT,) * 2])
async def test_a_process_told_twice_ends_at_once(signals: tuple[signal.Signals, ...]) -> None:
    async with ScriptedTarget(LANGUAGE, pass_ms=20.0) as target:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SPECPROXY")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "specproxy.cli", "serve", "--port", "0"),
            env={**clean, "SPECPROXY_TARGET__URL": target.url, "PYTHONUNBUFFERED": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(60):
                url = (await process.stdout.readline()).decode().split()[-1]
            async with aiohttp.ClientSession() as client:
                asked = spawn(fetch(client, "POST", url + PATHS["chat"], json=BODY), name="ask")
                await until(lambda: len(target.passes) > 3)
                began_s = time.monotonic()
                for number in signals:
                    with contextlib.suppress(ProcessLookupError):  # so quick was it
                        process.send_signal(number)
                    await asyncio.sleep(0.2)
                got = await asked
                async with asyncio.timeout(30):
                    _, stderr = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert time.monotonic() - began_s < QUICK_S
        assert process.returncode == 0
        assert not got.whole
        assert "specproxy was stopped" in got.events[-1]["error"]["message"]
        assert b"Traceback" not in stderr
