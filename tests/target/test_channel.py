"""The draft channel, client side, against a real WebSocket server that the test scripts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specproxy.core.drafts import (
    PATH,
    Ended,
    Grow,
    GrownNode,
    Hello,
    Passed,
    Prompt,
    decode,
    encode,
)
from specproxy.core.tasks import spawn, stop
from specproxy.errors import TargetBroken, TargetError, TargetUnreachable
from specproxy.settings import TargetSettings
from specproxy.target.channel import DraftChannel, Heard
from specproxy.target.client import TargetClient
from specproxy.testing import until

Script = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def connected(script: Script) -> AsyncIterator[tuple[DraftChannel, asyncio.Task[None]]]:
    """A channel to a server that does what `script` says."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await script(socket)
        return socket

    app = web.Application()
    app.router.add_get(PATH, handle)
    async with (
        TestServer(app) as server,
        TargetClient(TargetSettings(url=str(server.make_url("")))) as client,
    ):
        channel = DraftChannel(client)
        running = spawn(channel.run(), name="channel")
        try:
            yield channel, running
        finally:
            await stop(running)


async def greet(socket: web.WebSocketResponse) -> None:
    await socket.send_str(encode(Hello("c1")))


async def test_an_answer_hears_what_is_said_of_it_and_of_no_other() -> None:
    async def script(socket: web.WebSocketResponse) -> None:
        await greet(socket)
        grow = decode(await socket.receive_str())
        assert isinstance(grow, Grow)
        for answer in ("99", grow.answer):
            for message in (Prompt(answer, [1]), Passed(answer, [2, 3]), Ended(answer)):
                await socket.send_str(encode(message))
        await socket.receive()

    heard: list[Heard] = []
    async with connected(script) as (channel, running):
        await channel.opened(running)
        assert channel.is_open
        with channel.answer(heard.append) as drafts:
            assert drafts is not None
            assert drafts.header == "c1/0"
            drafts.grow([GrownNode(0, None, 1, 5, 0.5)], 2)
            await until(lambda: len(heard) == 3)
    assert heard == [Prompt("0", [1]), Passed("0", [2, 3]), Ended("0")]
    assert not channel.num_answers


async def test_while_it_is_down_answers_go_without() -> None:
    async def script(socket: web.WebSocketResponse) -> None:
        await asyncio.Event().wait()

    async with connected(script) as (channel, _):
        with channel.answer(lambda _: None) as drafts:
            assert drafts is None


async def test_when_it_breaks_every_answer_is_told() -> None:
    broken = asyncio.Event()

    async def script(socket: web.WebSocketResponse) -> None:
        await greet(socket)
        await broken.wait()

    heard: list[Heard] = []
    async with connected(script) as (channel, running):
        await channel.opened(running)
        with channel.answer(heard.append) as drafts:
            broken.set()
            await until(lambda: bool(heard))
            assert heard == [Ended("0")]
            assert drafts is not None
            drafts.grow([], 0)  # into the void
        await running
        assert not channel.is_open


async def test_another_protocol_is_refused_with_both_versions() -> None:
    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_str(encode(Hello("c1", protocol=7)))
        await socket.receive()

    async with connected(script) as (channel, running):
        await channel.opened(running)
        with pytest.raises(TargetError, match="version 7"):
            await running


async def test_garbage_ends_the_channel() -> None:
    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_str("{")
        await socket.receive()

    async with connected(script) as (_, running):
        with pytest.raises(TargetBroken, match="no message of the draft channel"):
            await running


async def test_a_target_without_a_channel_is_unreachable_by_it() -> None:
    async with (
        TestServer(web.Application()) as server,
        TargetClient(TargetSettings(url=str(server.make_url("")))) as client,
    ):
        with pytest.raises(TargetUnreachable, match="no draft channel"):
            await DraftChannel(client).run()
