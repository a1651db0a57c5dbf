"""The draft channel: drafts speed an answer up, and nothing they do changes or holds it up."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from specproxy.core.drafts import (
    HEADER,
    PATH,
    Ended,
    Grow,
    GrownNode,
    Hello,
    Message,
    Passed,
    Prompt,
    decode,
    encode,
)
from specproxy.testing import Language, until
from specproxy.testing.coordinator import ScriptedCoordinator

LANGUAGE = Language(mean_length=0)
BODY = {"prompt": "The sea", "temperature": 0, "n_predict": 40}


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def receive(channel: aiohttp.ClientWebSocketResponse) -> Message:
    message = decode(await channel.receive_str())
    assert message is not None
    return message


def chain(tokens: Sequence[int], position: int, first_id: int = 0) -> list[GrownNode]:
    return [
        GrownNode(first_id + i, first_id + i - 1 if i else None, position + i, token, 0.9)
        for i, token in enumerate(tokens)
    ]


async def complete(
    client: aiohttp.ClientSession, url: str, header: str | None, **more: Any
) -> dict[str, Any]:
    headers = {HEADER: header} if header else {}
    body = {**BODY, **more}
    async with client.post(f"{url}/completion", json=body, headers=headers) as response:
        assert response.status == 200
        answer: dict[str, Any] = await response.json()
        return answer


async def greedy(client: aiohttp.ClientSession, url: str) -> tuple[str, list[int]]:
    answer = await complete(client, url, None, return_tokens=True)
    return answer["content"], answer["tokens"]


@pytest.mark.parametrize("wrong_at", [None, 3])
async def test_drafts_are_verified_in_few_passes_and_told_so(
    client: aiohttp.ClientSession, wrong_at: int | None
) -> None:
    async with ScriptedCoordinator(LANGUAGE) as coordinator:
        expected, tokens = await greedy(client, coordinator.url)
        coordinator.engine.pass_ms = 20
        async with client.ws_connect(coordinator.url + PATH) as channel:
            hello = await receive(channel)
            assert isinstance(hello, Hello)
            asking = asyncio.gather(complete(client, coordinator.url, f"{hello.channel}/a"))
            prompt = await receive(channel)
            assert isinstance(prompt, Prompt)
            drafted = list(tokens[:20])
            if wrong_at is not None:
                drafted[wrong_at] += 1
            nodes = chain(drafted, len(prompt.tokens))
            await channel.send_str(encode(Grow("a", nodes, go_at=0)))
            heard = []
            while not isinstance(message := await receive(channel), Ended):
                heard.append(message)
                if isinstance(message, Passed) and message.num_accepted:
                    coordinator.engine.pass_ms = 0  # the draft has been there in time
            (answer,) = await asking
    assert answer["content"] == expected
    passes = [message for message in heard if isinstance(message, Passed)]
    assert [token for one in passes for token in one.tokens] == tokens
    num_accepted = sum(one.num_accepted for one in passes)
    num_right = 20 if wrong_at is None else wrong_at
    assert num_accepted in (num_right, num_right - 1)  # the prompt's pass may have begun before
    assert answer["timings"]["draft_n_accepted"] == num_accepted
    assert answer["timings"]["draft_n"] == sum(one.num_verified for one in passes)
    assert len(passes) == len(tokens) - num_accepted


async def test_an_unknown_channel_means_a_plain_answer(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(LANGUAGE) as coordinator:
        expected, _ = await greedy(client, coordinator.url)
        for header in ("nobody/1", "x", "/", "a/b/c"):
            answer = await complete(client, coordinator.url, header)
            assert answer["content"] == expected
            assert "draft_n" not in answer["timings"]


async def test_several_choices_run_plain(client: aiohttp.ClientSession) -> None:
    async with (
        ScriptedCoordinator(LANGUAGE) as coordinator,
        client.ws_connect(coordinator.url + PATH) as channel,
    ):
        hello = await receive(channel)
        assert isinstance(hello, Hello)
        headers = {HEADER: f"{hello.channel}/a"}
        async with client.post(
            f"{coordinator.url}/completion", json={**BODY, "n": 2}, headers=headers
        ) as response:
            assert len(await response.json()) == 2
        with pytest.raises(TimeoutError):
            await channel.receive(timeout=0.05)


async def test_a_channel_that_dies_lets_its_answer_go_on(client: aiohttp.ClientSession) -> None:
    async with ScriptedCoordinator(LANGUAGE, pass_ms=2) as coordinator:
        expected, tokens = await greedy(client, coordinator.url)
        channel = await client.ws_connect(coordinator.url + PATH)
        hello = await receive(channel)
        assert isinstance(hello, Hello)
        asking = asyncio.gather(complete(client, coordinator.url, f"{hello.channel}/a"))
        prompt = await receive(channel)
        assert isinstance(prompt, Prompt)
        nodes = chain(tokens[:2], len(prompt.tokens))
        await channel.send_str(encode(Grow("a", nodes, go_at=30)))
        await channel.close()
        (answer,) = await asking
        assert answer["content"] == expected
        await until(lambda: len(coordinator.channels) == 0)


async def test_an_answer_ends_when_its_client_leaves(client: aiohttp.ClientSession) -> None:
    async with (
        ScriptedCoordinator(LANGUAGE, pass_ms=5) as coordinator,
        client.ws_connect(coordinator.url + PATH) as channel,
    ):
        hello = await receive(channel)
        assert isinstance(hello, Hello)
        body = {**BODY, "n_predict": 3000, "stream": True}
        headers = {HEADER: f"{hello.channel}/a"}
        async with client.post(
            f"{coordinator.url}/completion", json=body, headers=headers
        ) as response:
            await response.content.readline()
            response.close()
        while not isinstance(await receive(channel), Ended):
            pass
        assert coordinator.engine.num_busy == 0


@pytest.mark.parametrize(
    "frame",
    [
        "no json",
        "[]",
        json.dumps({"type": "grow"}),
        json.dumps({"type": "grow", "answer": "a", "nodes": [[1]]}),
        json.dumps({"type": "grow", "answer": "a", "nodes": [[0, None, 3, 10**6, 1.0]]}),
        json.dumps({"type": "grow", "answer": "a", "nodes": [[0, None, "3", 5, 1.0]]}),
        json.dumps({"type": "grow", "answer": 5, "nodes": []}),
        b"binary",
    ],
)
async def test_malformed_frames_close_the_channel(
    client: aiohttp.ClientSession, frame: str | bytes
) -> None:
    async with (
        ScriptedCoordinator(LANGUAGE) as coordinator,
        client.ws_connect(coordinator.url + PATH) as channel,
    ):
        await receive(channel)
        await (channel.send_str(frame) if isinstance(frame, str) else channel.send_bytes(frame))
        closing = await channel.receive()
        assert closing.type is aiohttp.WSMsgType.CLOSE
        assert closing.data == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_unknown_types_and_answers_are_ignored(client: aiohttp.ClientSession) -> None:
    async with (
        ScriptedCoordinator(LANGUAGE) as coordinator,
        client.ws_connect(coordinator.url + PATH) as channel,
    ):
        hello = await receive(channel)
        assert isinstance(hello, Hello)
        await channel.send_str(json.dumps({"type": "future", "what": 1}))
        await channel.send_str(encode(Grow("nobody", chain([5], 3))))
        await complete(client, coordinator.url, f"{hello.channel}/a")
        assert isinstance(await receive(channel), Prompt)


@pytest.mark.load
async def test_a_client_that_does_not_read_is_dropped_and_its_answers_are_not(
    client: aiohttp.ClientSession,
) -> None:
    async with ScriptedCoordinator(LANGUAGE) as coordinator:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", coordinator.port))
        reader, writer = await asyncio.open_connection(sock=deaf, limit=1024)
        writer.write(
            f"GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            "".encode()
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        frame = await reader.read(1024)
        channel = json.loads(frame[frame.index(b"{") :])["channel"]
        prompt = [300] * 4000  # its Prompt message is a large frame
        for i in range(2000):
            if len(coordinator.channels) == 0:
                break
            answer = await complete(
                client, coordinator.url, f"{channel}/{i}", prompt=prompt, n_predict=1
            )
            assert answer["tokens_predicted"] == 1
        assert len(coordinator.channels) == 0
        writer.close()
