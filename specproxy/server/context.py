"""What every handler needs, kept in the application under typed keys."""

from aiohttp import web

from specproxy.route import Route
from specproxy.server.metrics import Metrics
from specproxy.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
ROUTE = web.AppKey("route", Route)
METRICS = web.AppKey("metrics", Metrics)


def shares_key(request: web.Request) -> bool:
    """Whether the client's key is the target's: neither side has one configured."""
    settings = request.app[SETTINGS]
    return settings.listen.api_key is None and settings.target.api_key is None
