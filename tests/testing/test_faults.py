"""Each fault does what it says, and nothing once it is off."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from specproxy.core.tasks import spawn
from specproxy.testing import Break, CannedAnswer, Language, ScriptedTarget, StreamFault
from specproxy.testing.vocabulary import WORDS, ToyVocabulary

LANGUAGE = Language().with_script("Hi", "Hello 😀 world")
BODY = {"prompt": "Hi", "temperature": 0, "stream": True}


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(LANGUAGE) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def read(client: aiohttp.ClientSession, target: ScriptedTarget, **more: Any) -> list[str]:
    """The blocks of a streamed `/v1/completions`."""
    async with client.post(f"{target.url}/v1/completions", json={**BODY, **more}) as response:
        blocks: list[str] = []
        try:
            blocks += (await response.read()).decode().split("\n\n")
        except aiohttp.ClientPayloadError:
            blocks.append("broken")
        return blocks[:-1] if blocks[-1] == "" else blocks


async def content(client: aiohttp.ClientSession, target: ScriptedTarget) -> str:
    blocks = await read(client, target)
    data = [json.loads(b.removeprefix("data: ")) for b in blocks if b.startswith("data: {")]
    return "".join(chunk["choices"][0]["text"] for chunk in data)


@pytest.mark.parametrize("kind", [Break.RESET, Break.CUT])
async def test_broken_connections(
    target: ScriptedTarget, client: aiohttp.ClientSession, kind: Break
) -> None:
    for after_events in (0, 2, 100):
        target.faults.stream = StreamFault(kind, after_events)
        with pytest.raises(aiohttp.ClientError):  # noqa: PT012
            async with client.post(f"{target.url}/v1/completions", json=BODY) as response:
                received = b""
                async for chunk in response.content.iter_any():
                    received += chunk
        assert received.count(b"\n\n") <= after_events
        assert b'"finish_reason":"stop"' not in received
    target.faults.clear()
    assert await content(client, target) == "Hello 😀 world"


async def test_a_reset_is_a_reset(target: ScriptedTarget) -> None:
    target.faults.stream = StreamFault(Break.RESET)
    host, port = target.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(BODY).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_clean_end_lacks_the_finish(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.stream = StreamFault(Break.CLEAN_END, after_events=100)
    blocks = await read(client, target)
    assert "broken" not in blocks
    assert len(blocks) == 5
    assert not any('"finish_reason":"stop"' in block or "DONE" in block for block in blocks)


async def test_silence_lasts_until_the_client_leaves(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.stream = StreamFault(Break.SILENCE, after_events=1)
    async with client.post(f"{target.url}/v1/completions", json=BODY) as response:
        assert await response.content.readline()
        await response.content.readline()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.content.readline(), 0.05)


async def test_one_event_is_malformed(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.stream = StreamFault(Break.MALFORMED, after_events=2)
    blocks = await read(client, target)
    for i, block in enumerate(blocks[:-1]):
        if i == 2:
            with pytest.raises(ValueError):
                json.loads(block.removeprefix("data: "))
        else:
            json.loads(block.removeprefix("data: "))
    assert blocks[-1] == "data: [DONE]"


async def test_pings_and_split_bytes_change_no_text(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.pings = target.faults.split_bytes = True
    assert await content(client, target) == "Hello 😀 world"
    assert (await read(client, target)).count(":") == 7


@pytest.mark.parametrize("num_done", [0, 1, 2])
async def test_done_events(
    target: ScriptedTarget, client: aiohttp.ClientSession, num_done: int
) -> None:
    target.faults.num_done = num_done
    assert (await read(client, target)).count("data: [DONE]") == num_done


async def test_canned_answers_hit_so_many_matching_requests(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    page = CannedAnswer(502, b"<html>bad</html>", "text/html", {"Retry-After": "3"})
    target.faults.answer = page
    target.faults.remaining = 1
    async with client.get(f"{target.url}/health") as response:
        assert response.status == 200
    async with client.post(f"{target.url}/completion", json=BODY) as response:
        assert response.status == 502
        assert response.content_type == "text/html"
        assert response.headers["Retry-After"] == "3"
        assert await response.read() == page.body
    async with client.post(f"{target.url}/completion", json=BODY) as response:
        assert response.status == 200


async def test_match_spares_other_requests(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.stream = StreamFault(Break.CUT)
    target.faults.match = lambda request: request.generates and not request.streams
    assert await content(client, target) == "Hello 😀 world"
    whole = {**BODY, "stream": False}
    async with client.post(f"{target.url}/completion", json=whole) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_loading_answers_503_everywhere(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.loading = True
    async with client.get(f"{target.url}/health") as response:
        assert response.status == 503
        error = (await response.json())["error"]
    assert error == {"message": "Loading model", "type": "unavailable_error", "code": 503}
    target.faults.loading = False
    assert await content(client, target) == "Hello 😀 world"


async def test_a_hang_sends_no_headers(
    target: ScriptedTarget, client: aiohttp.ClientSession
) -> None:
    target.faults.hang = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.post(f"{target.url}/completion", json=BODY), 0.05)


async def test_down_refuses_and_up_is_a_new_process(client: aiohttp.ClientSession) -> None:
    async with ScriptedTarget(Language(mean_length=0), pass_ms=1) as target:
        url = target.url
        response = await client.post(f"{url}/completion", json=BODY)
        await response.content.readline()
        await target.down()
        with pytest.raises(aiohttp.ClientError):
            await response.read()
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"{url}/health")
        other = ToyVocabulary("other", words=tuple(reversed(WORDS)))
        await target.up(Language(other), model="other")
        assert target.url == url
        assert target.passes == []
        async with client.get(f"{url}/v1/models") as response:
            assert (await response.json())["data"][0]["id"] == "other"
        async with client.post(f"{url}/tokenize", json={"content": " the"}) as response:
            assert (await response.json())["tokens"] == other.tokenize(" the")


async def test_a_target_ends_with_requests_in_flight(client: aiohttp.ClientSession) -> None:
    async with ScriptedTarget(Language(mean_length=0)) as target:
        target.faults.match = lambda request: request.streams
        target.faults.hang = True
        hanging = spawn(content(client, target), name="hanging")
        await target.wait_for("/v1/completions")
    with pytest.raises(aiohttp.ClientError):
        await hanging
