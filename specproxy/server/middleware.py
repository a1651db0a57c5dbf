"""Who may come in, and what becomes of errors on the way out."""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http_exceptions import ContentEncodingError

from specproxy.errors import ClientGone, RequestError, SpecproxyError
from specproxy.server.context import ACCESS, KEYRING
from specproxy.server.cors import preflight
from specproxy.server.identity import ID_HEADER, REQUEST_ID, read_id
from specproxy.server.outgoing import Outgoing, outgoing_of
from specproxy.server.page.files import FILES
from specproxy.server.replies import error_reply, reply_to

log = structlog.get_logger(__name__)

OWNERS_PATHS = frozenset({"/metrics", "/specproxy/status", "/specproxy/events"})
"""Of all routes, so not for the key of one."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Browsers ask first, without a key, whether a page may use the proxy."""
    return preflight(request) or await handler(request)


@web.middleware
async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One id for a request, from the client or made here: in every log line of it, in the
    target's request, in the answer's head."""
    request_id = read_id(request.headers.get(ID_HEADER))
    request[REQUEST_ID] = request_id
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        return await handler(request)


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error that nobody has answered becomes one in the OpenAI shape, or ends the answer
    that has begun."""
    try:
        return await handler(request)
    except SpecproxyError as error:
        outgoing = outgoing_of(request)
        if outgoing is not None:
            return await _failed(request, outgoing, error)
        if isinstance(error, RequestError):
            log.info("refused", path=request.path, reason=str(error))
        else:
            log.warning("no answer", path=request.path, reason=str(error))
        return reply_to(error)
    except (web.RequestPayloadError, ContentEncodingError) as error:
        return error_reply(
            400,
            f"The request's body could not be read: {error}.",
            kind="invalid_request_error",
        )
    except web.HTTPException as error:
        return error_reply(error.status, error.reason, kind="invalid_request_error")
    except Exception:
        log.exception("a handler failed", path=request.path)
        outgoing = outgoing_of(request)
        if outgoing is not None:
            return await _failed(request, outgoing, SpecproxyError("specproxy failed."))
        return error_reply(500, "specproxy failed; its log tells more.", kind="server_error")


async def _failed(
    request: web.Request, outgoing: Outgoing, error: SpecproxyError
) -> web.StreamResponse:
    log.warning("an answer broke off", path=request.path, reason=str(error))
    try:
        return await outgoing.fail(error)
    except ClientGone as gone:
        return await outgoing.fail(gone)


async def expectation(request: web.Request) -> web.StreamResponse | None:
    """`Expect: 100-continue` is met; no other is known."""
    if request.headers[hdrs.EXPECT].lower() != "100-continue":
        return error_reply(
            417,
            "Of `Expect` only 100-continue is known.",
            kind="invalid_request_error",
        )
    if request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun
    return None


@web.middleware
async def keys(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Where client keys are configured, only their owners come in, each to what the key opens."""
    keyring = request.app[KEYRING]
    access = keyring.access(_given_keys(request))
    if access is None and not _is_open(request):
        return error_reply(
            401,
            "The API key is missing or wrong: send specproxy's listen.api_key as"
            " `Authorization: Bearer KEY`.",
            kind="authentication_error",
        )
    request[ACCESS] = access or keyring.without_key
    if access is not None and not access.owner and request.path in OWNERS_PATHS:
        return error_reply(403, "This needs specproxy's listen.api_key.", kind="permission_error")
    return await handler(request)


def _given_keys(request: web.Request) -> list[bytes]:
    """Keys in either of the two headers that clients use."""
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    keys = [credentials.strip()] if scheme.lower() == "bearer" else []
    keys.append(request.headers.get("x-api-key", ""))
    return [key.encode("utf-8", "surrogateescape") for key in keys]


def _is_open(request: web.Request) -> bool:
    """llama-server, too, answers its health route and what browsers ask first without a key. The
    page holds no data; it asks for the key itself. None of these has a body: a stranger's is not
    read, unpacked or sent on."""
    if request.can_read_body:
        return False
    if request.method == "OPTIONS":
        return True
    if request.method not in ("GET", "HEAD"):
        return False
    return request.path in ("/health", "/v1/health", "/specproxy") or request.path in FILES
