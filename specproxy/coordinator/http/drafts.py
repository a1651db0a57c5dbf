"""`/specproxy/drafts`: the WebSocket of a draft channel."""

from aiohttp import web

from specproxy.coordinator.channel import HEARTBEAT_S, MAX_FRAME_BYTES
from specproxy.coordinator.http.service import SERVICE


async def drafts(request: web.Request) -> web.WebSocketResponse:
    service = request.app[SERVICE]
    num_vocabulary = len(service.ready().engine.vocabulary)
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME_BYTES)
    await socket.prepare(request)
    with service.channels.opened(num_vocabulary) as channel:
        await channel.run(socket)
    if not socket.closed and request.transport is not None:
        request.transport.close()  # it may not read: no farewell that waits for it
    return socket
