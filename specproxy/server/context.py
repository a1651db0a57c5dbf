"""What every handler needs, kept in the application and in requests under typed keys."""

from aiohttp import web

from specproxy.route import Route
from specproxy.route.router import Router
from specproxy.server.keyring import Access, Keyring
from specproxy.server.limits import BodyLimits
from specproxy.server.metrics import Metrics
from specproxy.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
ROUTER = web.AppKey("router", Router)
KEYRING = web.AppKey("keyring", Keyring)
LIMITS = web.AppKey("limits", BodyLimits)
METRICS = web.AppKey("metrics", Metrics)
ACCESS: "web.RequestKey[Access]" = web.RequestKey("access", Access)
ROUTE: "web.RequestKey[Route]" = web.RequestKey("route", Route)
"""Of a request whose route has been chosen: see `routing`."""


def shares_key(request: web.Request) -> bool:
    """Whether the client's key is the target's: neither side has one configured."""
    return request.app[SETTINGS].listen.api_key is None and not request[ROUTE].client.has_key
