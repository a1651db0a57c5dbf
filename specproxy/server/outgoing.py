"""One relayed answer on its way to the client: its head, its bytes, its end.

Invariants: a broken answer has no clean end; a comment of ours stands between whole events; a
client that reads nothing holds neither its slot nor the target for longer than `listen.write_s`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import structlog
from aiohttp import hdrs, web

from specproxy.core.tasks import spawn, stop
from specproxy.errors import ClientGone, SpecproxyError, TargetBroken
from specproxy.route import Mode
from specproxy.server.context import ROUTE, SETTINGS
from specproxy.server.headers import EVENT_STREAM, for_client
from specproxy.server.listener import Listener
from specproxy.server.replies import error_body, error_event
from specproxy.target.deltas import ENDS_WITH_DONE, kind_of

log = structlog.get_logger(__name__)

MODE_HEADER = "x-specproxy-mode"
ROUTE_HEADER = "x-specproxy-route"
PING = b":\n\n"
DONE = b"data: [DONE]\n\n"
MAX_REFUSAL_BYTES = 1 << 20
PIECE_BYTES = 1 << 16
"""A client that reads so much within `listen.write_s` is slow, but it reads."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_KEY: "web.RequestKey[Outgoing]" = web.RequestKey("outgoing", object)  # type: ignore[arg-type]


def outgoing_of(request: web.Request) -> "Outgoing | None":
    """The answer to `request` that has begun; None before that."""
    outgoing = request.get(_KEY)
    return outgoing if outgoing is not None and outgoing.response is not None else None


class Outgoing:
    """The answer to `request`.

    Args:
        mode: what the client is told of how its answer came.

    Attributes:
        response: what is being written; None before the head.
    """

    def __init__(self, request: web.Request, mode: Mode) -> None:
        listen = request.app[SETTINGS].listen
        self.response: web.StreamResponse | None = None
        self._request = request
        self._client = request[ROUTE].client
        self._mode = mode
        self._write_s = listen.write_s
        self._ping_s = listen.ping_s
        self._tail = b""  # the last bytes written
        request[_KEY] = self

    def __repr__(self) -> str:
        return f"<Outgoing {self._request.path} {self.response!r}>"

    @asynccontextmanager
    async def waiting(self, *, streamed: bool) -> AsyncIterator[None]:
        """Ping the client of a stream while the block waits for a slot or for the target."""
        if not streamed or self._ping_s is None:
            yield
            return
        pinging = spawn(self._keep_pinging(self._ping_s), name="ping")
        try:
            yield
        finally:
            await stop(pinging)

    async def relay(
        self, upstream: aiohttp.ClientResponse, listener: Listener | None = None
    ) -> web.StreamResponse:
        """Send the target's answer on as it comes, to its end.

        Args:
            listener: hears a stream, and tells whether it has ended as it should.

        Raises:
            TargetBroken: it ended otherwise. The client has not been told yet.
            ClientGone: nobody reads it.
        """
        streamed = is_stream(upstream)
        if self.response is not None and not streamed:
            return await self._refuse(upstream)  # pings have begun a stream: no status any more
        if self._is_foreign(upstream):
            return await self._reword(upstream)
        if upstream.status in (401, 403):
            return await self.deliver(upstream, await self._read(upstream))
        await self._start(upstream)
        if not streamed:
            async for chunk in self._client.chunks(upstream):
                await self._write(chunk)
        elif listener is None:
            feed = self._request.method == hdrs.METH_GET  # of events, when there are any
            async for chunk in self._client.chunks(upstream, tick_s=self._ping_s, rests=feed):
                await self._write(chunk or self._ping())
        else:
            async for chunk in listener.read(self._client, upstream, tick_s=self._ping_s):
                await self._write(chunk or self._ping())
            if listener.kind in ENDS_WITH_DONE and not (listener.done or listener.failed):
                await self._write(DONE)
        return await self._end()

    async def write(self, events: AsyncIterator[bytes]) -> web.StreamResponse:
        """Send a stream that the proxy itself composes, to its end.

        Raises:
            ClientGone: nobody reads it.
        """
        if self.response is None:
            headers = {**EVENT_STREAM, hdrs.CONTENT_TYPE: "text/event-stream"}
            await self._prepare(web.StreamResponse(headers=headers))
        async for data in events:
            await self._write(data)
        return await self._end()

    async def deliver(self, upstream: aiohttp.ClientResponse, body: bytes) -> web.StreamResponse:
        """Send the target's answer with a body that has been read already."""
        await self._start(upstream, num_bytes=len(body))
        await self._write(body)
        return await self._end()

    async def fail(self, error: SpecproxyError) -> web.StreamResponse:
        """End an answer that has begun with an error, where it is a stream, and without its end."""
        assert self.response is not None, "nothing has begun"
        if isinstance(error, ClientGone):
            log.info("the client is gone", path=self._request.path, reason=str(error))
        elif self.response.content_type == "text/event-stream":
            await self._fail_with(error_body(str(error), kind="upstream_error", code=502))
        self.abort()
        return self.response

    def abort(self) -> None:
        """Close the client's connection without ending the body."""
        transport = self._request.transport
        if transport is None:
            return
        transport.close()  # (what is written goes out first, if somebody reads it)
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(self._write_s, transport.abort)

    async def _start(
        self, upstream: aiohttp.ClientResponse, *, num_bytes: int | None = None
    ) -> None:
        if self.response is not None:
            return
        headers = for_client(upstream.headers)
        if is_stream(upstream):
            headers.update(EVENT_STREAM)
        elif num_bytes is not None and self._request.method != hdrs.METH_HEAD:
            headers[hdrs.CONTENT_LENGTH] = str(num_bytes)
        elif hdrs.CONTENT_LENGTH in upstream.headers:
            headers[hdrs.CONTENT_LENGTH] = upstream.headers[hdrs.CONTENT_LENGTH]
        await self._prepare(
            web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        )

    async def _prepare(self, response: web.StreamResponse) -> None:
        response.headers[ROUTE_HEADER] = self._request[ROUTE].name
        response.headers[MODE_HEADER] = self._mode.value
        self.response = response
        try:
            await response.prepare(self._request)
        except ConnectionError as error:
            raise ClientGone("The client left.") from error

    async def _keep_pinging(self, ping_s: float) -> None:
        try:
            while True:
                await asyncio.sleep(ping_s)
                if self.response is None:
                    headers = {**EVENT_STREAM, hdrs.CONTENT_TYPE: "text/event-stream"}
                    await self._prepare(web.StreamResponse(headers=headers))
                await self._write(self._ping())
        except ClientGone as error:
            log.info("the client is gone", path=self._request.path, reason=str(error))
            self.abort()  # which ends the request's handler

    def _ping(self) -> bytes:
        """A comment; nothing within an event."""
        return PING if not self._tail or self._tail.endswith(_EVENT_ENDS) else b""

    async def _write(self, data: bytes) -> None:
        assert self.response is not None
        if not data:
            return
        self._tail = (self._tail + data[-4:])[-4:]
        try:
            for start in range(0, len(data), PIECE_BYTES):
                async with asyncio.timeout(self._write_s):
                    await self.response.write(data[start : start + PIECE_BYTES])
        except TimeoutError as error:
            if self._request.transport is not None:
                self._request.transport.abort()  # what it has not read it will not get
            raise ClientGone(
                f"The client has read nothing for {self._write_s:g} s.",
                remedy="Raise listen.write_s if it is only slow.",
            ) from error
        except ConnectionError as error:
            raise ClientGone("The client left.") from error

    async def _end(self) -> web.StreamResponse:
        assert self.response is not None
        try:
            async with asyncio.timeout(self._write_s):
                await self.response.write_eof()
        except (TimeoutError, ConnectionError) as error:
            raise ClientGone("The client left at the end of its answer.") from error
        return self.response

    async def _refuse(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """The target's refusal, told within a stream that pings have begun."""
        try:
            said = json.loads(await self._read(upstream))
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or "error" not in said:
            said = self._said_of(upstream)
        await self._fail_with(said)
        self.abort()
        assert self.response is not None
        return self.response

    def _is_foreign(self, upstream: aiohttp.ClientResponse) -> bool:
        """A refusal in no JSON: not llama-server's, but of something before it."""
        is_call = self._request.method == hdrs.METH_POST  # pages are asked for with GET
        return is_call and upstream.status >= 400 and not _is_json(upstream)

    async def _reword(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Such a refusal as clients can read it, with its status."""
        body = json.dumps(self._said_of(upstream)).encode()
        headers = for_client(upstream.headers)
        headers.popall(hdrs.CONTENT_ENCODING, None)
        headers[hdrs.CONTENT_TYPE] = "application/json; charset=utf-8"
        headers[hdrs.CONTENT_LENGTH] = str(len(body))
        await self._prepare(web.StreamResponse(status=upstream.status, headers=headers))
        await self._write(body)
        return await self._end()

    def _said_of(self, upstream: aiohttp.ClientResponse) -> dict[str, Any]:
        """An error in the envelope for a refusal that is in none."""
        error = TargetBroken(
            f"{self._client.name} answered with {upstream.status} and no JSON.",
            remedy="Something before llama-server, or no llama-server, may have answered: "
            "look at target.url and at its log.",
        )
        return error_body(str(error), kind="upstream_error", code=upstream.status)

    async def _read(self, upstream: aiohttp.ClientResponse) -> bytes:
        """The body of a refusal: the target's key, should it be in there, struck out."""
        body = b""
        async for chunk in self._client.chunks(upstream):
            body = (body + chunk)[:MAX_REFUSAL_BYTES]
        return self._client.without_key(body)

    async def _fail_with(self, body: object) -> None:
        await self._write(error_event(body, kind_of(self._request.path)))


def is_stream(upstream: aiohttp.ClientResponse) -> bool:
    """Whether the target answers with a stream of events."""
    return upstream.status == 200 and upstream.content_type == "text/event-stream"


def _is_json(upstream: aiohttp.ClientResponse) -> bool:
    return upstream.content_type == "application/json" or upstream.content_type.endswith("+json")


def outcome_of(response: web.StreamResponse, listener: Listener | None = None) -> str:
    """How a relayed answer went, for the metrics.

    Args:
        listener: of its stream. One that has heard no end had none to hear: pings had begun the
            stream, and the target refused.
    """
    if response.status >= 400:
        return "refused"
    if listener is not None and response.content_type == "text/event-stream":
        return "finished" if listener.complete and not listener.failed else "refused"
    return "finished"
