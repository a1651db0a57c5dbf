"""GET /specproxy/events: what the page shows, as a stream of server-sent events.

`present` comes twice a second, `history` at the start and then now and then. What is sent is made
once for all who watch. Texts of prompts and answers are in it only where `shows_texts` says so.
"""

import asyncio
import ipaddress
import json
import time
from collections.abc import Sequence

from aiohttp import web

from specproxy.route import Route
from specproxy.server.context import SETTINGS
from specproxy.server.headers import EVENT_STREAM
from specproxy.server.page.files import HEADERS
from specproxy.server.replies import error_reply
from specproxy.server.snapshot import history, present

TICK_S = 0.5
HISTORY_TICKS = 10
MAX_WATCHERS = 16


class Watchers:
    """Who watches, and what was sent last. One per application.

    Attributes:
        tick_s: from one event `present` to the next.
        max_watchers: at a time; more are refused.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self.tick_s = TICK_S
        self.max_watchers = MAX_WATCHERS
        self.num_watchers = 0
        self.closing = asyncio.Event()
        self._routes = routes
        self._made_s = 0.0
        self._made: dict[bool, bytes] = {}

    def present(self, *, texts: bool) -> bytes:
        """The event of this moment."""
        now_s = time.monotonic()
        if now_s - self._made_s > self.tick_s / 2:
            self._made_s = now_s
            self._made.clear()
        if texts not in self._made:
            routes = [present(route, texts=texts) for route in self._routes]
            self._made[texts] = _event("present", {"routes": routes, "texts": texts})
        return self._made[texts]

    def history(self) -> bytes:
        """The event of the past."""
        return _event("history", {"routes": [*map(history, self._routes)]})


WATCHERS = web.AppKey("watchers", Watchers)


async def events(request: web.Request) -> web.StreamResponse:
    """Handle the stream until the watcher leaves or the proxy stops."""
    watchers, settings = request.app[WATCHERS], request.app[SETTINGS]
    if watchers.num_watchers >= watchers.max_watchers:
        return error_reply(
            503,
            f"{watchers.max_watchers} pages are being watched already.",
            kind="unavailable_error",
            headers={"Retry-After": "10"},
        )
    response = web.StreamResponse(
        headers={**HEADERS, **EVENT_STREAM, "Content-Type": "text/event-stream; charset=utf-8"}
    )
    texts = shows_texts(request)
    watchers.num_watchers += 1
    try:
        await response.prepare(request)
        num_ticks = 0
        while not watchers.closing.is_set():
            data = watchers.present(texts=texts)
            if num_ticks % HISTORY_TICKS == 0:
                data += watchers.history()
            async with asyncio.timeout(settings.listen.write_s):
                await response.write(data)
            num_ticks += 1
            await _rest(watchers)
        await response.write_eof()
    except (TimeoutError, ConnectionError):  # the page reads nothing any more
        if request.transport is not None:
            request.transport.abort()
    finally:
        watchers.num_watchers -= 1
    return response


def shows_texts(request: web.Request) -> bool:
    """Whether this watcher may read what others ask and are answered.

    Where no key is asked for, only this machine may; and by an address of its own, lest a page
    elsewhere give its own name our address.
    """
    settings = request.app[SETTINGS]
    if not settings.page.texts:
        return False
    if settings.listen.api_key is not None:
        return True
    return settings.listen.is_loopback and _is_own_name(request.url.host or "")


def _is_own_name(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _rest(watchers: Watchers) -> None:
    try:
        async with asyncio.timeout(watchers.tick_s):
            await watchers.closing.wait()
    except TimeoutError:
        pass


def _event(name: str, content: object) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace")
