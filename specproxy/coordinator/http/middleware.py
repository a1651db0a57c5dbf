"""Who may come in, and what becomes of errors on the way out."""

import hmac

import structlog
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.typedefs import Handler, Middleware

from specproxy.coordinator.http.replies import body_of_error, error_reply, json_reply
from specproxy.errors import SpecproxyError

log = structlog.get_logger(__name__)

_PUBLIC = ("/health", "/v1/health")


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error that nobody has answered becomes one in the OpenAI envelope."""
    try:
        return await handler(request)
    except SpecproxyError as error:
        body = body_of_error(error)
        status = body["error"]["code"]
        if status >= 500:
            log.warning("no answer", path=request.path, reason=str(error))
        response = json_reply(body, status=status)
        if status == 503:
            response.headers["Retry-After"] = "5"
        return response
    except web.HTTPRequestEntityTooLarge as error:
        return error_reply(f"The body is too large: {error.text}", "invalid_request_error", 413)
    except (web.RequestPayloadError, ContentEncodingError) as error:
        return error_reply(f"The body cannot be read: {error}", "invalid_request_error", 400)
    except web.HTTPException as error:
        return error_reply(error.reason, "invalid_request_error", error.status)
    except ConnectionError:
        raise
    except Exception:
        log.exception("a handler failed", path=request.path)
        return error_reply("The coordinator failed; its log tells more.", "server_error", 500)


def keys(api_key: str) -> Middleware:
    """Only the key's owner comes in, but for the routes that llama-server leaves open, too."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        given = (headers.get("Authorization") or headers.get("X-Api-Key") or "").removeprefix(
            "Bearer "
        )
        is_open = request.path in _PUBLIC or request.method == "OPTIONS"
        if is_open or hmac.compare_digest(given.encode("utf-8", "replace"), api_key.encode()):
            return await handler(request)
        return error_reply("Invalid API Key", "authentication_error", 401)

    return check


@web.middleware
async def preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a browser asks before it asks."""
    if request.method != "OPTIONS":
        return await handler(request)
    return web.Response(
        headers={
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
            "Access-Control-Allow-Headers": "*",
        }
    )


async def allow_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Web pages of any origin may read the answers, as llama-server has it."""
    if origin := request.headers.get("Origin"):
        response.headers["Access-Control-Allow-Origin"] = origin
