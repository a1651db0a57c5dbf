"""The proxy's own answers: metrics and status; of several routes the models and the health, too."""

from typing import Any

from aiohttp import web

from specproxy.route import Route
from specproxy.server.context import ACCESS, METRICS, ROUTER
from specproxy.server.passthrough import forward
from specproxy.server.replies import error_reply
from specproxy.server.snapshot import status_of


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics: Prometheus text."""
    return web.Response(
        body=request.app[METRICS].render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def status(request: web.Request) -> web.Response:
    """GET /specproxy/status: what each route does now, and why; always 200 while we live."""
    return web.json_response({"routes": [*map(status_of, request.app[ROUTER].routes)]})


async def models(request: web.Request) -> web.StreamResponse:
    """GET /v1/models: the routes that the client's key opens, under their own names, whether
    their targets are there or not. A single target answers itself."""
    router = request.app[ROUTER]
    if len(router) == 1 or "model" in request.query:
        return await forward(request)
    opened = request[ACCESS].routes
    listed = [_listed(route) for route in router.routes if route.name in opened]
    return web.json_response({"object": "list", "data": listed})


def _listed(route: Route) -> dict[str, Any]:
    facts = route.facts
    meta = None if facts is None else {"n_vocab": facts.num_vocab, "n_ctx": facts.num_context}
    return {
        "id": route.name,
        "aliases": list(route.aliases),
        "object": "model",
        "created": 0,
        "owned_by": "specproxy",
        "meta": meta,
    }


async def health(request: web.Request) -> web.StreamResponse:
    """GET /health: whether any target is there, so that the loss of one leaves the others in
    use; `?model=` asks one. A single target answers itself."""
    router = request.app[ROUTER]
    if len(router) == 1 or "model" in request.query:
        return await forward(request)
    if any(route.is_there for route in router.routes):
        return web.json_response({"status": "ok"})
    return error_reply(
        503, "No target is there.", kind="unavailable_error", headers={"Retry-After": "5"}
    )
