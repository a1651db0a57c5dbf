"""Which route answers a request, by its `model` and its key, and whether it takes the body."""

from aiohttp import web

from specproxy.route import Route
from specproxy.server.context import ACCESS, LIMITS, ROUTE, ROUTER


def choose_route(request: web.Request, model: str | None = None, *, num_bytes: int = 0) -> Route:
    """The request's route; handlers find it under `ROUTE` from now on.

    Args:
        model: what the body names; else the query may name one, as for llama-server's own router.
        num_bytes: of the body, as far as it has been read.

    Raises:
        UnknownModel: there is none of that name for this client.
        BodyTooLarge: the route takes no body of that size.
    """
    wanted = model or request.query.get("model")
    route = request[ROUTE] = request.app[ROUTER].find(wanted, request[ACCESS].routes)
    request.app[LIMITS].of(route.name).check(num_bytes)
    return route
