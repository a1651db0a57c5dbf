"""Everything that the proxy does not speed up: to the target and back, untouched."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from aiohttp import hdrs, web

from specproxy.errors import TargetUnreachable
from specproxy.route import Mode
from specproxy.server.asked import Asked, read_asked
from specproxy.server.bodies import StreamedBody, declared_bytes, read_body
from specproxy.server.context import ROUTE, ROUTER, shares_key
from specproxy.server.headers import for_target
from specproxy.server.identity import REQUEST_ID
from specproxy.server.listener import Listener
from specproxy.server.outgoing import Outgoing, is_stream
from specproxy.server.probabilities import checked_body
from specproxy.server.routing import choose_route

SMALL_BYTES = 1 << 20
"""Bodies up to this size are read first: they can be sent again on a fresh connection."""
NOTHING_ASKED = Asked(None, None)


async def forward(request: web.Request) -> web.StreamResponse:
    """Handle a path that the proxy knows nothing of. Where there are several routes, its body may
    name one."""
    if len(request.app[ROUTER]) == 1 or not request.can_read_body:
        choose_route(request)
        return await passthrough(request)
    raw = await read_body(request)
    choose_route(request, read_asked(request, raw).model, num_bytes=len(raw))
    return await passthrough(request, raw)


async def passthrough(
    request: web.Request,
    raw: bytes | None = None,
    asked: Asked = NOTHING_ASKED,
    *,
    outgoing: Outgoing | None = None,
    listener: Listener | None = None,
    more: Mapping[str, str] | None = None,
) -> web.StreamResponse:
    """Relay one exchange: method, path, query and body as they came, the answer as it comes.

    Args:
        raw: the request's body where it has been read already; else it is streamed.
        asked: what is in it.
        outgoing: the answer's way, where it has begun already.
        listener: hears the answer where it is a stream; None: one is made for `asked`.
        more: headers for the target beside the client's.
    """
    route = request[ROUTE]
    outgoing = outgoing or Outgoing(request, Mode.PASSTHROUGH)
    headers = for_target(
        request.headers, credentials=shares_key(request), request_id=request[REQUEST_ID]
    )
    headers.update(more or {})
    data: bytes | AsyncIterator[bytes] | None = raw
    streamed: StreamedBody | None = None
    if raw is None and 0 < (request.content_length or 0) <= SMALL_BYTES:
        data = await read_body(request)
    elif raw is None and request.can_read_body:
        streamed = StreamedBody(request)
        data = streamed.pieces()
        num_bytes = declared_bytes(request)
        if num_bytes is not None:
            headers[hdrs.CONTENT_LENGTH] = str(num_bytes)
    elif asked.kind is not None:
        headers[hdrs.ACCEPT_ENCODING] = "identity"  # the proxy reads along
    async with AsyncExitStack() as stack:
        async with outgoing.waiting(streamed=asked.streamed):
            try:
                upstream = await stack.enter_async_context(
                    route.client.request(
                        request.method, request.rel_url.raw_path_qs, headers=headers, data=data
                    )
                )
            except TargetUnreachable:
                if streamed is not None and streamed.too_large is not None:
                    raise streamed.too_large from None
                raise
        if is_stream(upstream):
            return await outgoing.relay(upstream, listener or asked.listener())
        if asked.wants_probabilities and upstream.status == 200:
            return await outgoing.deliver(upstream, await checked_body(route.client, upstream))
        return await outgoing.relay(upstream)
