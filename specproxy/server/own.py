"""The proxy's own pages: metrics and status."""

from dataclasses import asdict

from aiohttp import web

from specproxy.server.context import METRICS, ROUTE


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics: Prometheus text."""
    return web.Response(
        body=request.app[METRICS].render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def status(request: web.Request) -> web.Response:
    """GET /specproxy/status: what each route does now, and why; always 200 while we live."""
    route = request.app[ROUTE]
    counts = route.counts
    return web.json_response(
        {
            "routes": [
                {
                    "name": route.name,
                    "target": route.client.name,
                    "mode": route.mode.value,
                    "reason": route.reason,
                    "ready": route.ready.is_set(),
                    "draft_alive": route.drafter is not None and route.drafter.alive,
                    "running": route.num_running,
                    "waiting": route.num_waiting,
                    "counts": asdict(counts),
                    "acceptance_rate": counts.acceptance_rate,
                    "tokens_per_pass": counts.tokens_per_pass,
                }
            ]
        }
    )
