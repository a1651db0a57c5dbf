"""The listening socket: what is no HTTP gets an error in the OpenAI shape, too.

aiohttp answers such requests itself, before any handler, in plain text, and logs their bytes,
keys among them. Here they get our envelope, and the log gets the kind of the error alone.
"""

import asyncio
import socket

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from specproxy.server.replies import error_reply

log = structlog.get_logger(__name__)

BACKLOG = 1024
MAX_TIMEOUT_MS = 2**31 - 1
"""The kernel's."""


class Protocol(RequestHandler):
    """One client's connection."""

    __slots__ = ("_write_s",)

    def __init__(
        self, server: web.Server, *, loop: asyncio.AbstractEventLoop, write_s: float
    ) -> None:
        super().__init__(server, loop=loop, access_log=None)  # type: ignore[arg-type]
        self._write_s = write_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the kernel end the connection of a client that takes nothing, where it can."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            limit_ms = min(max(1, int(self._write_s * 1000)), MAX_TIMEOUT_MS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what could not be handled as a request."""
        log.warning("a request could not be read", status=status, reason=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        if status >= 500:
            reply = error_reply(
                status, "specproxy failed; its log tells more.", kind="server_error"
            )
        else:
            reply = error_reply(
                status,
                f"The request is no valid HTTP ({type(exc).__name__}).",
                kind="invalid_request_error",
            )
        reply.force_close()
        return reply


class Site(web.BaseSite):
    """Where the application listens: host and port, with `Protocol` for its connections."""

    __slots__ = ("_host", "_port", "_write_s")

    def __init__(self, runner: web.AppRunner, host: str, port: int, *, write_s: float) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._host = host
        self._port = port
        self._write_s = write_s

    @property
    def name(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        server, loop = self._runner.server, asyncio.get_running_loop()
        assert server is not None
        self._server = await loop.create_server(
            lambda: Protocol(server, loop=loop, write_s=self._write_s),
            self._host,
            self._port,
            backlog=self._backlog,
        )
