"""What the proxy itself says to clients: errors in the OpenAI shape, with who speaks."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from specproxy.errors import (
    BodyTooLarge,
    RequestError,
    SpecproxyError,
    TargetUnreachable,
    TooManyRequests,
    UnknownModel,
)
from specproxy.target.deltas import Kind

SPEAKER = "specproxy"


def error_body(message: str, *, kind: str, code: int) -> dict[str, Any]:
    """The OpenAI error envelope, and Anthropic's, whose clients look for `type` beside `error`.

    `source` tells the proxy's errors from the target's.
    """
    error = {"message": message, "type": kind, "code": code, "source": SPEAKER}
    return {"type": "error", "error": error}


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
    if isinstance(error, UnknownModel):
        return error_reply(404, str(error), kind="not_found_error")
    if isinstance(error, BodyTooLarge):
        return error_reply(413, str(error), kind="invalid_request_error")
    if isinstance(error, TooManyRequests):
        return error_reply(429, str(error), kind="rate_limit_error", headers={"Retry-After": "1"})
    if isinstance(error, RequestError):
        return error_reply(400, str(error), kind="invalid_request_error")
    return error_reply(502, str(error), kind="upstream_error")


def error_event(body: Any, kind: Kind | None) -> bytes:
    """The last event of a stream that went wrong: no clean end may follow it.

    Args:
        body: an error in the envelope.
        kind: of the stream; OpenAI chat streams and llama-server's own have no named events.
    """
    name = b"event: error\n" if kind in ("messages", "responses") else b""
    return name + b"data: " + json.dumps(body).encode() + b"\n\n"
