"""Which headers cross the proxy. Allow-lists: what is not named stays on its side."""

from collections.abc import Mapping

from multidict import CIMultiDict

from specproxy.server.identity import ID_HEADER

_REQUEST = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "if-none-match",
        "range",
        "user-agent",
        "x-resp-type",  # this and the next two: of llama-server's POST /tools
        "x-tool-cwd",
        "x-tool-runtime",
    }
)
_REQUEST_PREFIX = "x-llama-server-proxy-header-"
"""Of what llama-server's /cors-proxy sends on."""
_CLIENT_CREDENTIALS = frozenset({"authorization", "x-api-key"})
_RESPONSE = frozenset(
    {
        "accept-ranges",
        "allow",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-range",
        "content-type",
        "cross-origin-embedder-policy",
        "cross-origin-opener-policy",
        "etag",
        "last-modified",
        "mcp-session-id",  # through llama-server's /cors-proxy
        "retry-after",
        "vary",
        "www-authenticate",
        "x-request-id",
    }
)


def for_target(
    headers: Mapping[str, str], *, credentials: bool, request_id: str
) -> CIMultiDict[str]:
    """The client's headers that the target may see. The body goes without its encoding, since
    the proxy has undone that.

    Args:
        credentials: the client's own key is meant for the target, since the proxy has none.
        request_id: how the request is called in logs.
    """
    allowed = _REQUEST | _CLIENT_CREDENTIALS if credentials else _REQUEST
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() in allowed or name.lower().startswith(_REQUEST_PREFIX)
    )
    kept[ID_HEADER] = request_id
    return kept


def for_client(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The target's headers that the client may see. Its CORS headers stay: see `cors`."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() in _RESPONSE
    )


EVENT_STREAM = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""For streams: nothing between the proxy and the client may hold events back."""
