"""Bodies in and out: JSON as llama-server reads and writes it, errors in the OpenAI envelope."""

import json
from typing import Any

from aiohttp import web

from specproxy.errors import CoordinatorError, RequestError, SpecproxyError

Json = dict[str, Any]


class PromptTooLong(RequestError):
    """The prompt leaves no room for an answer: told apart, for clients shorten it and retry."""

    def __init__(self, num_prompt: int, num_context: int) -> None:
        super().__init__(
            f"request ({num_prompt} tokens) exceeds the available context size"
            f" ({num_context} tokens), try increasing it"
        )
        self.num_prompt = num_prompt
        self.num_context = num_context


def dumps(value: object) -> bytes:
    """Compact UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + dumps(value) + b"\n\n"


def json_reply(value: object, *, status: int = 200) -> web.Response:
    response = web.Response(body=dumps(value), status=status, content_type="application/json")
    response.charset = "utf-8"
    return response


def error_body(message: str, kind: str, status: int, **more: object) -> Json:
    return {"error": {"code": status, "message": message, "type": kind, **more}}


def error_reply(message: str, kind: str, status: int, **more: object) -> web.Response:
    return json_reply(error_body(message, kind, status, **more), status=status)


def body_of_error(error: SpecproxyError) -> Json:
    """The envelope of one of our errors; its `code` is the HTTP status."""
    if isinstance(error, PromptTooLong):
        return error_body(
            str(error),
            "exceed_context_size_error",
            400,
            n_prompt_tokens=error.num_prompt,
            n_ctx=error.num_context,
        )
    if isinstance(error, RequestError):
        return error_body(str(error), "invalid_request_error", 400)
    if isinstance(error, CoordinatorError):
        return error_body(str(error), "unavailable_error", 503)
    return error_body(str(error), "server_error", 500)


async def read_json(request: web.Request) -> Json:
    """The request's body, which must be an object.

    Raises:
        RequestError: it is none. Strict as llama-server: UTF-8, no NaN, no lone surrogates.
    """
    raw = await request.read()
    try:
        body = json.loads(raw.decode(), parse_constant=_refuse)
        if b"\\u" in raw:
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The body is no JSON: {error}.", remedy="Send UTF-8 JSON.") from error
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.", remedy="Send {...}.")
    return body


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
