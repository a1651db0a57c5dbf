"""Everything that the proxy does not speed up: to the target and back, untouched."""

from collections.abc import AsyncIterator, Mapping

import aiohttp
from aiohttp import hdrs, web

from specproxy.errors import TargetBroken
from specproxy.route import Mode
from specproxy.server.context import ROUTE, shares_key
from specproxy.server.headers import EVENT_STREAM, for_client, for_target
from specproxy.server.replies import error_event

MODE_HEADER = "x-specproxy-mode"
SMALL_BYTES = 1 << 20
"""Bodies up to this size are read first: they can be sent again on a fresh connection."""
ROUTE_HEADER = "x-specproxy-route"
_BROKEN = "specproxy.broken"


async def passthrough(
    request: web.Request,
    raw: bytes | None = None,
    *,
    mode: Mode = Mode.PASSTHROUGH,
    more: Mapping[str, str] | None = None,
) -> web.StreamResponse:
    """Relay one exchange: method, path, query and body as they came, the answer as it comes.

    Args:
        raw: the request's body where it has been read already; else it is streamed.
        mode: what the client is told of how its answer came.
        more: headers for the target beside the client's.
    """
    client = request.app[ROUTE].client
    headers = for_target(request.headers, credentials=shares_key(request))
    headers.update(more or {})
    data: bytes | AsyncIterator[bytes] | None = raw
    if raw is None and 0 < (request.content_length or 0) <= SMALL_BYTES:
        data = await request.read()
    elif raw is None and request.can_read_body:
        data = request.content.iter_any()
        if request.content_length is not None and hdrs.CONTENT_ENCODING not in request.headers:
            headers[hdrs.CONTENT_LENGTH] = str(request.content_length)
    async with client.request(
        request.method, request.rel_url.raw_path_qs, headers=headers, data=data
    ) as upstream:
        return await relay(request, upstream, mode)


async def relay(
    request: web.Request, upstream: aiohttp.ClientResponse, mode: Mode = Mode.PASSTHROUGH
) -> web.StreamResponse:
    """Send the target's answer on as it arrives; a stream that breaks ends with an error event.

    A plain body that breaks closes the connection, so that the client sees it incomplete.
    """
    response = start_response(request, upstream, mode)
    client = request.app[ROUTE].client
    streamed = upstream.content_type == "text/event-stream"
    length = upstream.headers.get(hdrs.CONTENT_LENGTH)
    if length is not None:
        response.headers[hdrs.CONTENT_LENGTH] = length
    await response.prepare(request)
    try:
        async for chunk in client.chunks(upstream):
            await response.write(chunk)
    except TargetBroken as error:
        if streamed:
            await response.write(error_event(error))
        abort(request)
        return response
    await response.write_eof()
    return response


def start_response(
    request: web.Request, upstream: aiohttp.ClientResponse, mode: Mode
) -> web.StreamResponse:
    """The client's response, with the target's status and headers; not prepared yet."""
    headers = for_client(upstream.headers)
    headers[ROUTE_HEADER] = request.app[ROUTE].name
    headers[MODE_HEADER] = mode.value
    if upstream.content_type == "text/event-stream":
        headers.update(EVENT_STREAM)
    return web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)


def outcome_of(request: web.Request, response: web.StreamResponse) -> str:
    """How a relayed answer went, for the metrics."""
    if request.get(_BROKEN):
        return "broken"
    return "finished" if response.status < 400 else "refused"


def abort(request: web.Request) -> None:
    """Close the client's connection without ending the body: a broken answer has no clean end."""
    request[_BROKEN] = True
    if request.transport is not None:
        request.transport.close()
