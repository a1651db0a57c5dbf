"""A TCP relay that delays bytes: an emulated link in front of an RPC worker.

`DelayRelay` lives in the caller's event loop; `python -m specproxy.pool.relay` runs relays in a
process of their own, which is what a pool uses (`pool.link`).

Invariants: bytes pass unchanged and in order, each at least half a round trip after it came; a
worker sees a connection only when a client opened one, since a bare connection can end a worker;
what is under way in one direction is bounded, beyond that the sender is no longer read.
"""

import argparse
import asyncio
import contextlib
import json
import random
import selectors
import sys
from collections import deque
from collections.abc import Callable
from typing import Self

from specproxy.core.tasks import spawn, stop
from specproxy.pool.pacing import LinkSpeed, Pacing

MAX_IN_FLIGHT_BYTES = 64 << 20
"""Per direction. Divided by the one-way delay this is the link's bandwidth: 1.6 GB/s at 80 ms."""


class _Pipe:
    """One direction of a connection: chunks wait until they are due, None ends the stream."""

    def __init__(self, pacing: Pacing, max_bytes: int, on_end: Callable[[], None]) -> None:
        self._pacing = pacing
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._num_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sink_is_full = False
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.ended = False

    def put(self, data: bytes | None) -> None:
        """Take what the source sent."""
        due_s = self._pacing.arrival_s(self._loop.time(), len(data or b""))
        self._waiting.append((due_s, data))
        self._num_bytes += len(data or b"")
        if self._num_bytes > self._max_bytes and self.source is not None:
            self.source.pause_reading()
        if self._timer is None:
            self.flush()

    def flush(self) -> None:
        """Hand over what is due, and come back when the next chunk is."""
        self.cancel()
        while self.sink is not None and self._waiting and not self._sink_is_full:
            due, data = self._waiting[0]
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self.flush)
                break
            self._waiting.popleft()
            if data is None:
                self.ended = True
                self._on_end()
            else:
                self._num_bytes -= len(data)
                self.sink.write(data)
        if self._num_bytes <= self._max_bytes and self.source is not None:
            self.source.resume_reading()

    def set_sink_is_full(self, full: bool) -> None:
        """Hold chunks back while the sink takes no more."""
        self._sink_is_full = full
        if not full:
            self.flush()

    def cancel(self) -> None:
        """Forget the next time to flush."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _End(asyncio.Protocol):
    """One socket: what it receives goes into `outward`, and `inward` writes to it."""

    def __init__(self, outward: _Pipe, inward: _Pipe, on_lost: Callable[[], None]) -> None:
        self._outward = outward
        self._inward = inward
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # asyncio sets TCP_NODELAY by itself
        self._outward.source = self._inward.sink = transport
        self._inward.flush()

    def data_received(self, data: bytes) -> None:
        self._outward.put(data)

    def eof_received(self) -> bool:
        self._outward.put(None)
        return True  # the other direction stays open

    def pause_writing(self) -> None:
        self._inward.set_sink_is_full(True)

    def resume_writing(self) -> None:
        self._inward.set_sink_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()


class _Connection:
    """A client's connection and the one opened for it to the worker."""

    def __init__(
        self,
        new_pacing: Callable[[], Pacing],
        max_bytes: int,
        on_lost: Callable[["_Connection"], None],
    ) -> None:
        self._on_lost = on_lost
        self._up = _Pipe(new_pacing(), max_bytes, self._up_ended)
        self._down = _Pipe(new_pacing(), max_bytes, self._down_ended)
        self.client = _End(self._up, self._down, self.abort)
        self.worker = _End(self._down, self._up, self.abort)

    def abort(self) -> None:
        """Drop both sockets at once. Idempotent."""
        for pipe in (self._up, self._down):
            pipe.cancel()
            sink, pipe.sink, pipe.source = pipe.sink, None, None
            if sink is not None:
                sink.abort()
        self._on_lost(self)

    def _up_ended(self) -> None:
        self._end(self._up, self._down)

    def _down_ended(self) -> None:
        self._end(self._down, self._up)

    def _end(self, pipe: _Pipe, other: _Pipe) -> None:
        for ended in (pipe, other) if other.ended else ():
            if ended.sink is not None:
                ended.sink.close()  # writes out what it holds
        if not other.ended and pipe.sink is not None:
            pipe.sink.write_eof()


class DelayRelay:
    """Listens on loopback and relays each connection to a target, late.

    Attributes:
        rtt_ms: emulated round trip; may be set while running, for bytes that come from then on.
            Jitter and rate (of each connection's directions) are as in `LinkSpeed`.
        port: where it listens, once entered.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        rtt_ms: float,
        listen_port: int = 0,
        *,
        jitter_ms: float = 0.0,
        mbit_s: float | None = None,
        max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES,
    ) -> None:
        self._speed = LinkSpeed(rtt_ms, jitter_ms, mbit_s)
        self._rng = random.Random()
        self._max_bytes = max_in_flight_bytes
        self.port = listen_port
        self._target = (target_host, target_port)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        host, port = self._target
        return (
            f"<DelayRelay :{self.port} -> {host}:{port}, {self.rtt_ms:g} ms, "
            f"{len(self._connections)} connections>"
        )

    @property
    def rtt_ms(self) -> float:
        return self._speed.rtt_ms

    @rtt_ms.setter
    def rtt_ms(self, rtt_ms: float) -> None:
        self._speed.rtt_ms = rtt_ms

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connecting):
            await stop(task)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the transports close their sockets on the loop's next turn
        await self._server.wait_closed()

    def _accept(self) -> asyncio.Protocol:
        connection = _Connection(
            lambda: Pacing(self._speed, self._rng), self._max_bytes, self._connections.discard
        )
        self._connections.add(connection)
        task = spawn(self._connect(connection), name=f"relay to {self._target[1]}")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return connection.client

    async def _connect(self, connection: _Connection) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection.worker, *self._target)
        except OSError:
            connection.abort()
        if connection not in self._connections:
            connection.abort()  # the client left meanwhile


async def serve(targets: list[tuple[str, int]], rtt_ms: float) -> None:
    """Run one relay per target until standard input ends; a line of it is a new `rtt_ms`.

    The ports come as one line of JSON on standard output, then each new `rtt_ms` once it holds.
    Standard input is a pipe from the parent: however the parent dies, the relays end as well.
    """
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with contextlib.AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(DelayRelay(host, port, rtt_ms))
            for host, port in targets
        ]
        print(json.dumps([relay.port for relay in relays]), flush=True)
        while line := await commands.readline():
            for relay in relays:
                relay.rtt_ms = float(line)
            print(json.dumps(float(line)), flush=True)


def endpoint(text: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def precise_loop() -> asyncio.AbstractEventLoop:
    """epoll rounds timeouts up to whole milliseconds, select does not: a millisecond is a LAN."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main() -> None:
    """Entry point of `python -m specproxy.pool.relay`."""
    parser = argparse.ArgumentParser(description="Delay TCP connections, one relay per target.")
    parser.add_argument("--rtt-ms", type=float, default=80.0)
    parser.add_argument("targets", nargs="+", type=endpoint, metavar="HOST:PORT")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(serve(arguments.targets, arguments.rtt_ms))


if __name__ == "__main__":
    main()
