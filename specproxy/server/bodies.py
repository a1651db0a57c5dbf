"""Reading requests' bodies, within the limits of routes.

Which route answers is known only when the body has been read. So reading is bounded by the largest
limit of the routes that the client's key opens, and the route's own is checked once it is chosen
(`routing`).
"""

from collections.abc import AsyncIterator

from aiohttp import hdrs, web

from specproxy.errors import BodyTooLarge
from specproxy.server.context import ACCESS, LIMITS, ROUTE
from specproxy.server.limits import BodyLimit


async def read_body(request: web.Request) -> bytes:
    """All of it, as it was before any encoding.

    Raises:
        BodyTooLarge: it is larger than its route takes, or any that the client may use.
    """
    limit = _limit_of(request)
    limit.check(declared_bytes(request) or 0)
    try:
        return await request.clone(client_max_size=limit.num_bytes).read()
    except web.HTTPRequestEntityTooLarge:
        raise limit.exceeded from None


class StreamedBody:
    """A body that is sent on as it comes, and not kept.

    Attributes:
        too_large: set when it turned out to be larger than its route takes; it ended there.
    """

    def __init__(self, request: web.Request) -> None:
        self.too_large: BodyTooLarge | None = None
        self._request = request
        self._limit = _limit_of(request)
        self._limit.check(declared_bytes(request) or 0)

    def __repr__(self) -> str:
        return f"<StreamedBody {self._limit} {self.too_large!r}>"

    async def pieces(self) -> AsyncIterator[bytes]:
        """
        Raises:
            BodyTooLarge: more came than the route takes.
        """
        num_bytes = 0
        async for piece in self._request.content.iter_any():
            num_bytes += len(piece)
            if num_bytes > self._limit.num_bytes:
                self.too_large = self._limit.exceeded
                raise self.too_large
            yield piece


def declared_bytes(request: web.Request) -> int | None:
    """How large the client says that the body is; None where that says nothing of what is read."""
    return None if hdrs.CONTENT_ENCODING in request.headers else request.content_length


def _limit_of(request: web.Request) -> BodyLimit:
    """The limit of the request's route; before that is chosen, of all that it may be."""
    limits, route = request.app[LIMITS], request.get(ROUTE)
    return limits.largest(request[ACCESS].routes) if route is None else limits.of(route.name)
