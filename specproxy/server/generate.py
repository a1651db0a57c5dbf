"""Generation requests: the client's to the target, the target's answer back, a session beside.

The answer is relayed byte for byte and followed on the way. A client that did not ask for a
stream gets one answer, assembled from the stream that the proxy asked for in its place.
"""

import json
from contextlib import AbstractAsyncContextManager

import aiohttp
import structlog
from aiohttp import web

from specproxy.admission import Admission, admit, with_slot
from specproxy.errors import TargetBroken, TargetError
from specproxy.route import Mode
from specproxy.server.account import log_answer
from specproxy.server.context import METRICS, ROUTE, shares_key
from specproxy.server.headers import for_client, for_target
from specproxy.server.listener import Listener
from specproxy.server.passthrough import (
    MODE_HEADER,
    ROUTE_HEADER,
    abort,
    outcome_of,
    passthrough,
    relay,
    start_response,
)
from specproxy.server.replies import error_event
from specproxy.server.verified import verified
from specproxy.session import Session
from specproxy.target.assemble import (
    Assembler,
    Json,
    NotAssembled,
    TargetErrorReply,
    kind_of,
    streamed_body,
)

log = structlog.get_logger(__name__)


async def generate(request: web.Request) -> web.StreamResponse:
    """Handle a generation route: speculate where that is possible, else pass through."""
    route = request.app[ROUTE]
    raw = await request.read()
    if route.verifies:
        return await verified(request, raw)
    kind = kind_of(request.path)
    body = _parsed(raw)
    admission = admit(kind, body) if kind is not None and body is not None else None
    if admission is None or not route.speculates:
        return await _unspeculated(request, raw)
    answer = _Answer(request, raw, admission)
    async with route.lease(admission.transcript) as slot, route.session(admission) as session:
        if slot is None or session is None:
            return await _unspeculated(request, raw)
        try:
            if admission.streamed:
                return await answer.stream(slot, session)
            return await answer.whole(slot, session)
        except NotAssembled as error:
            log.info("asking again without a stream", reason=str(error))
        finally:
            answer.account(session)
    return await _unspeculated(request, raw)


async def _unspeculated(request: web.Request, raw: bytes) -> web.StreamResponse:
    """Leave the request to the target alone, and count it."""
    outcome = "cancelled"
    try:
        response = await passthrough(request, raw)
        outcome = outcome_of(request, response)
        return response
    except TargetError:
        outcome = "broken"
        raise
    finally:
        requests = request.app[METRICS].requests
        requests.labels(request.app[ROUTE].name, Mode.PASSTHROUGH.value, outcome).inc()


class _Answer:
    """One answer on its way from the target to the client."""

    def __init__(self, request: web.Request, raw: bytes, admission: Admission) -> None:
        self._request = request
        self._raw = raw
        self._admission = admission
        self._client = request.app[ROUTE].client
        self._listener: Listener | None = None
        self._outcome = "cancelled"

    def _upstream(self, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = for_target(self._request.headers, credentials=shares_key(self._request))
        headers["Accept-Encoding"] = "identity"  # the proxy reads along
        return self._client.request(
            "POST", self._request.rel_url.raw_path_qs, headers=headers, data=body
        )

    async def stream(self, slot: int, session: Session) -> web.StreamResponse:
        """Relay the stream that the client asked for."""
        listener = self._listener = Listener(self._admission.kind, session)
        async with self._upstream(with_slot(self._raw, slot)) as upstream:
            if not _is_stream(upstream):
                self._outcome = "refused"
                return await relay(self._request, upstream)
            response = start_response(self._request, upstream, Mode.SEEDING)
            await response.prepare(self._request)
            try:
                async for chunk in self._client.chunks(upstream):
                    listener.hear(chunk)
                    await response.write(chunk)
                    if listener.ended:
                        break
                if not listener.finished:
                    raise TargetBroken(
                        f"The target {self._client.name} ended its answer before it was complete.",
                        remedy="Look into llama-server's log; an RPC worker may have died.",
                    )
            except TargetBroken as error:
                self._outcome = "broken"
                await response.write(error_event(error))
                abort(self._request)
                return response
            if self._admission.kind != "native" and not (listener.done or listener.failed):
                await response.write(b"data: [DONE]\n\n")
            self._outcome = "finished"
            await response.write_eof()
            return response

    async def whole(self, slot: int, session: Session) -> web.StreamResponse:
        """Assemble the one answer that the client asked for.

        Raises:
            NotAssembled: the stream does not hold all of it; ask as the client asked.
            TargetBroken: the stream ended early.
        """
        kind, body = self._admission.kind, dict(self._admission.body)
        assembler = Assembler(kind, body)
        listener = self._listener = Listener(kind, session, assembler)
        wanted = json.dumps({**streamed_body(kind, body), "id_slot": slot}).encode()
        async with self._upstream(wanted) as upstream:
            if not _is_stream(upstream):
                self._outcome = "refused"
                return await relay(self._request, upstream)
            try:
                async for chunk in self._client.chunks(upstream):
                    listener.hear(chunk)
                    if listener.ended:
                        break
                result, status = assembler.result(), 200
            except TargetErrorReply as error:
                result, status = error.body, error.status
            except TargetBroken:
                self._outcome = "broken"
                raise
            except NotAssembled:
                self._outcome = "asked_again"
                raise
            headers = for_client(upstream.headers)
        self._outcome = "finished" if status == 200 else "refused"
        headers.popall("Cache-Control", None)
        headers["Content-Type"] = "application/json; charset=utf-8"
        headers[ROUTE_HEADER] = self._request.app[ROUTE].name
        headers[MODE_HEADER] = Mode.SEEDING.value
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        return web.Response(
            status=status, headers=headers, body=text.encode("utf-8", "surrogatepass")
        )

    def account(self, session: Session) -> None:
        """Count and log how the answer went."""
        route, metrics = self._request.app[ROUTE], self._request.app[METRICS]
        listener = self._listener
        counts = session.counts
        if listener is not None and listener.finished:
            counts.finished(listener.timings)
        if listener is not None and listener.first_text_s is not None:
            metrics.first_token_s.labels(route.name, Mode.SEEDING.value).observe(
                listener.first_text_s
            )
        metrics.requests.labels(route.name, Mode.SEEDING.value, self._outcome).inc()
        log_answer(
            route,
            kind=self._admission.kind,
            outcome=self._outcome,
            ttft_s=None if listener is None else listener.first_text_s,
            counts=counts,
        )


def _is_stream(upstream: aiohttp.ClientResponse) -> bool:
    return upstream.status == 200 and upstream.content_type == "text/event-stream"


def _parsed(raw: bytes) -> Json | None:
    """The request's JSON object; None for anything else, which the target shall judge.

    Strict as the target is: UTF-8 without a byte order mark, no NaN.
    """
    try:
        body = json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
