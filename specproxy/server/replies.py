"""What the proxy itself says to clients: errors in the OpenAI shape, with who speaks."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from specproxy.errors import SpecproxyError, TargetUnreachable

SPEAKER = "specproxy"


def error_body(message: str, *, kind: str, code: int) -> dict[str, Any]:
    """The OpenAI error envelope; `source` tells the proxy's errors from the target's."""
    return {"error": {"message": message, "type": kind, "code": code, "source": SPEAKER}}


def error_reply(
    status: int, message: str, *, kind: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error answer of the proxy's own."""
    return web.json_response(
        error_body(message, kind=kind, code=status), status=status, headers=headers
    )


def reply_to(error: SpecproxyError) -> web.Response:
    """The answer to a request that the target did not answer."""
    if isinstance(error, TargetUnreachable):
        return error_reply(503, str(error), kind="unavailable_error", headers={"Retry-After": "5"})
    return error_reply(502, str(error), kind="upstream_error")


def error_event(error: SpecproxyError) -> bytes:
    """The last event of a stream that broke: no clean end may follow it."""
    body = error_body(str(error), kind="upstream_error", code=502)
    return b"data: " + json.dumps(body).encode() + b"\n\n"
