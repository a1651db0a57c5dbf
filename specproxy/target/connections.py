"""Connections to a target: how they are opened, watched and used again."""

import io
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace

import aiohttp

from specproxy.settings import TargetSettings

LARGE_BYTES = 1 << 20
"""From this size on a body is not sent in one go."""
_PROBES = (
    ("TCP_KEEPIDLE", 20),
    ("TCP_KEEPALIVE", 20),  # as macOS calls the one above
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 4),
)
"""After how many seconds of silence the kernel asks the other one, how often, how many times."""


def open_session(settings: TargetSettings) -> aiohttp.ClientSession:
    """Connections that are kept alive. A request's `trace_request_ctx`, a dict, gets `reused` if
    it went out on one of those. The limit until the head holds until `has_begun`."""
    traces = aiohttp.TraceConfig()
    traces.on_connection_reuseconn.append(_note_reuse)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=60, keepalive_timeout=30, socket_factory=_watched_socket
        ),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=settings.connect_s, sock_read=settings.first_byte_s
        ),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[traces],
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


def has_begun(response: aiohttp.ClientResponse) -> None:
    """Its head has come: its body has no limit from here on but its reader's."""
    connection = response.connection
    if connection is not None and connection.protocol is not None:
        connection.protocol.read_timeout = None
        connection.protocol.start_timeout()  # which forgets the one that runs


def in_pieces(
    data: bytes | AsyncIterator[bytes] | None,
) -> bytes | AsyncIterator[bytes] | io.BytesIO | None:
    """A large body as a file, which aiohttp sends in pieces; it is not copied for that."""
    return io.BytesIO(data) if isinstance(data, bytes) and len(data) >= LARGE_BYTES else data


def _watched_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """One of which the kernel says within a minute that the other host is gone. A host that only
    computes answers the kernel, however long it is silent."""
    family, kind, protocol, *_ = info
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened


async def _note_reuse(_session: object, context: SimpleNamespace, _params: object) -> None:
    if context.trace_request_ctx is not None:  # as a WebSocket's
        context.trace_request_ctx["reused"] = True
