"""The delay relay, in this event loop, between real sockets."""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator

import pytest

from specproxy.core.tasks import spawn
from specproxy.pool.relay import DelayRelay

RTT_MS = 60.0


class Worker:
    """A TCP server that echoes, and remembers who connected."""

    def __init__(self) -> None:
        self.num_connections = 0
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.write(b"bye")
            writer.close()

    def drop_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker()
    server = await asyncio.start_server(worker.serve, "127.0.0.1", 0)
    worker.port = server.sockets[0].getsockname()[1]
    yield worker
    server.close()
    worker.drop_all()
    await asyncio.sleep(0)


async def exchange(port: int, data: bytes) -> bytes:
    """Send `data`, end the stream, and read until the other side ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        answer = spawn(reader.read(-1), name="answer")
        writer.write(data)
        await writer.drain()
        writer.write_eof()
        return await answer
    finally:
        writer.close()
        await writer.wait_closed()


async def test_bytes_pass_unchanged_and_in_order_both_ways(worker: Worker) -> None:
    data = random.Random(1).randbytes(3_000_000)
    async with DelayRelay("127.0.0.1", worker.port, 4.0) as relay:
        assert await exchange(relay.port, data) == data + b"bye"


async def test_an_answer_takes_a_round_trip_at_least(worker: Worker) -> None:
    async with DelayRelay("127.0.0.1", worker.port, RTT_MS) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        for _ in range(3):
            start_s = time.monotonic()
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            assert time.monotonic() - start_s >= RTT_MS / 1000
        writer.close()
        await writer.wait_closed()


async def test_messages_under_way_at_once_share_the_round_trip(worker: Worker) -> None:
    """A link delays; it does not serve one message per round trip."""
    count = 40
    async with DelayRelay("127.0.0.1", worker.port, RTT_MS) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        start_s = time.monotonic()
        for _ in range(count):
            writer.write(b"x")
            await asyncio.sleep(0.001)
        await reader.readexactly(count)
        assert time.monotonic() - start_s < count * RTT_MS / 1000 / 4
        writer.close()
        await writer.wait_closed()


async def test_no_connection_to_the_worker_before_a_client_comes(worker: Worker) -> None:
    async with DelayRelay("127.0.0.1", worker.port, 0.0) as relay:
        await asyncio.sleep(0.05)
        assert worker.num_connections == 0
        assert await exchange(relay.port, b"hello") == b"hellobye"
        assert worker.num_connections == 1


async def test_many_connections_do_not_mix(worker: Worker) -> None:
    texts = [str(index).encode() * 1000 for index in range(20)]
    async with DelayRelay("127.0.0.1", worker.port, 10.0) as relay:
        answers = await asyncio.gather(*(exchange(relay.port, text) for text in texts))
        assert answers == [text + b"bye" for text in texts]
        await asyncio.sleep(0.02)
        assert "0 connections" in repr(relay)


async def test_a_shorter_round_trip_does_not_let_bytes_overtake(worker: Worker) -> None:
    async with DelayRelay("127.0.0.1", worker.port, 200.0) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"first ")
        await writer.drain()
        await asyncio.sleep(0.02)
        relay.rtt_ms = 0.0
        writer.write(b"second")
        assert await reader.readexactly(12) == b"first second"
        start_s = time.monotonic()
        writer.write(b"x" * 50)
        await reader.readexactly(50)
        assert time.monotonic() - start_s < 0.2  # what the link took before
        writer.close()
        await writer.wait_closed()


async def test_a_client_of_a_dead_worker_is_hung_up_on() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with DelayRelay("127.0.0.1", unused.getsockname()[1], 0.0) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_a_worker_that_dies_ends_the_client(worker: Worker) -> None:
    async with DelayRelay("127.0.0.1", worker.port, 5.0) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"x")
        await reader.readexactly(1)
        worker.drop_all()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_reader_that_stalls_stops_the_sender(worker: Worker) -> None:
    """What is under way is bounded: the relay's bound and the sockets' buffers, no more."""
    total = 64 << 20
    stalled: list[asyncio.StreamWriter] = []

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        stalled.append(writer)

    server = await asyncio.start_server(never_read, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with DelayRelay("127.0.0.1", port, 1.0, max_in_flight_bytes=1 << 20) as relay:
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < total:
                    await asyncio.wait_for(loop.sock_sendall(client, b"x" * (1 << 20)), 0.5)
                    sent += 1 << 20
            assert 0 < sent < total / 2
    server.close()
    for writer in stalled:
        writer.transport.abort()
    await asyncio.sleep(0)


async def test_leaving_the_relay_closes_what_is_open(worker: Worker) -> None:
    async with DelayRelay("127.0.0.1", worker.port, 0.0) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"x")
        await reader.readexactly(1)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", relay.port)


async def test_a_narrow_link_takes_the_time_of_its_bytes(worker: Worker) -> None:
    data = random.Random(2).randbytes(100_000)
    async with DelayRelay("127.0.0.1", worker.port, 0.0, mbit_s=8.0) as relay:
        start_s = time.monotonic()
        assert await exchange(relay.port, data) == data + b"bye"
        assert time.monotonic() - start_s >= 0.1
