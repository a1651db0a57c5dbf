"""The proxy's own answers: metrics and status."""

from aiohttp import web

from specproxy.server.context import METRICS, ROUTE
from specproxy.server.snapshot import status_of


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics: Prometheus text."""
    return web.Response(
        body=request.app[METRICS].render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def status(request: web.Request) -> web.Response:
    """GET /specproxy/status: what each route does now, and why; always 200 while we live."""
    return web.json_response({"routes": [status_of(request.app[ROUTE])]})
