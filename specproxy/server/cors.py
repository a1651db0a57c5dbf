"""Which web pages may use the proxy from a browser: those of `listen.cors_origins`, else none.

The target's own CORS headers do not pass: behind a proxy that holds the target's key they would
let any page use it. No credentials (cookies) are ever allowed; a page sends the key itself.
"""

from aiohttp import hdrs, web

from specproxy.server.context import SETTINGS

MAX_AGE_S = 86400
_EXPOSED = "x-request-id, x-specproxy-mode, x-specproxy-route, retry-after"


def preflight(request: web.Request) -> web.Response | None:
    """The answer to a browser that asks first; None for other requests and other origins."""
    if (
        request.method != hdrs.METH_OPTIONS
        or hdrs.ACCESS_CONTROL_REQUEST_METHOD not in request.headers
        or allowed_origin(request) is None
    ):
        return None
    wanted = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
    headers = {
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
        hdrs.ACCESS_CONTROL_MAX_AGE: str(MAX_AGE_S),
    }
    if wanted:
        headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = wanted
    return web.Response(status=204, headers=headers)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Tell the browser that the page may read this answer, streams and errors included."""
    origins = request.app[SETTINGS].listen.cors_origins
    if not origins:
        return
    if "*" not in origins:
        vary = response.headers.get(hdrs.VARY)
        response.headers[hdrs.VARY] = f"{vary}, Origin" if vary else "Origin"
    origin = allowed_origin(request)
    if origin is not None:
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
        response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _EXPOSED


def allowed_origin(request: web.Request) -> str | None:
    """The asking page's origin as it is allowed; None where it is not."""
    origins = request.app[SETTINGS].listen.cors_origins
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None:
        return None
    if "*" in origins:
        return "*"
    return origin if origin in origins else None
