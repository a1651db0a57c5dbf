"""Writes an answer's bytes to the client, or breaks it on the way.

Invariant: after a break `BrokenOff` is raised and nothing more is written.
"""

import asyncio
import socket
import struct

from aiohttp import web

from specproxy.testing.faults import Break, Faults

MALFORMED = b'data: {"choices":[{"index":0,"del\n\n'
PING = b":\n\n"


class BrokenOff(Exception):
    """A scripted fault ended the answer."""


class Writer:
    """Counts the events of one answer and applies the faults to them."""

    def __init__(self, request: web.Request, response: web.StreamResponse, faults: Faults) -> None:
        self._request = request
        self._response = response
        self._stream = faults.stream
        self._split = faults.split_bytes
        self._pings = faults.pings
        self._num_done = faults.num_done
        self._num_events = 0

    async def event(self, data: bytes, *, is_finish: bool = False) -> None:
        """Write one event; empty `data` is none. A fault not yet due strikes at the finish.

        Raises:
            BrokenOff: the fault struck; the handler returns its response.
        """
        if not data:
            return
        if self._pings:
            await self._write(PING)
        fault = self._stream
        if fault is not None and (self._num_events >= fault.after_events or is_finish):
            self._stream = None
            if fault.kind is not Break.MALFORMED:
                await self.break_off(fault.kind)
            await self._write(MALFORMED)
        self._num_events += 1
        await self._write(data)

    async def done(self) -> None:
        """The `[DONE]` of OpenAI streams: as many as the faults say."""
        for _ in range(self._num_done):
            await self.event(b"data: [DONE]\n\n")

    async def body(self, data: bytes) -> None:
        """Write a whole body; a stream fault strikes in its middle."""
        if self._stream is None:
            await self._write(data)
            return
        await self._write(data[: len(data) // 2])
        await self.break_off(self._stream.kind)

    async def break_off(self, kind: Break) -> None:
        """Let `kind` happen now. Raises BrokenOff, or waits until the client leaves."""
        transport = self._request.transport
        if transport is None:
            raise BrokenOff(kind.value)
        if kind is Break.SILENCE:
            await asyncio.Event().wait()
        elif kind is Break.RESET:
            connection = transport.get_extra_info("socket")
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            transport.abort()
        elif kind is Break.CUT:
            transport.close()
        raise BrokenOff(kind.value)

    async def _write(self, data: bytes) -> None:
        if not self._split:
            await self._response.write(data)
            return
        for value in data:
            await self._response.write(bytes([value]))
            await asyncio.sleep(0)
