"""Which route answers a request, by its `model` and its key."""

from aiohttp import web

from specproxy.route import Route
from specproxy.server.context import ACCESS, ROUTE, ROUTER


def choose_route(request: web.Request, model: str | None = None) -> Route:
    """The request's route; handlers find it under `ROUTE` from now on.

    Args:
        model: what the body names; else the query may name one, as for llama-server's own router.

    Raises:
        UnknownModel: there is none of that name for this client.
    """
    wanted = model or request.query.get("model")
    route = request[ROUTE] = request.app[ROUTER].find(wanted, request[ACCESS].routes)
    return route
