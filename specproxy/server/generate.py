"""Generation requests: the client's to the target, the target's answer back, a session beside.

The answer is relayed byte for byte and followed on the way. A client that did not ask for a
stream gets one answer, assembled from the stream that the proxy asked for in its place.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import aiohttp
import structlog
from aiohttp import web

from specproxy.admission import (
    Admission,
    admit,
    named_slot,
    num_choices_each,
    num_prompts,
    takes_slot,
    transcript_of,
    with_slot,
)
from specproxy.errors import TargetError
from specproxy.load import Measured
from specproxy.route import Mode
from specproxy.server.account import log_answer
from specproxy.server.asked import Asked, read_asked
from specproxy.server.bodies import read_body
from specproxy.server.context import METRICS, ROUTE, shares_key
from specproxy.server.fanned import fanned
from specproxy.server.headers import for_client, for_target
from specproxy.server.identity import REQUEST_ID
from specproxy.server.listener import Listener
from specproxy.server.outgoing import (
    MODE_HEADER,
    ROUTE_HEADER,
    Outgoing,
    is_stream,
    outcome_of,
    outgoing_of,
)
from specproxy.server.passthrough import passthrough
from specproxy.server.routing import choose_route
from specproxy.server.verified import verified
from specproxy.session import Session
from specproxy.target.assemble import (
    Assembler,
    NotAssembled,
    TargetErrorReply,
    streamed_body,
)

log = structlog.get_logger(__name__)


async def generate(request: web.Request) -> web.StreamResponse:
    """Handle a generation route: speculate where that is possible, else pass through."""
    raw = await read_body(request)
    asked = read_asked(request, raw)
    route = choose_route(request, asked.model, num_bytes=len(raw))
    with route.gate.entered():
        if route.answers.verifies:
            return await verified(request, raw, asked)
        return await _generated(request, raw, asked)


async def _generated(request: web.Request, raw: bytes, asked: Asked) -> web.StreamResponse:
    """The answer of a llama-server: seeded, in rounds, or its alone."""
    route = request[ROUTE]
    with route.load.answer() as measured:
        if not measured.speculates:
            return await _unspeculated(request, raw, asked, measured)
        if route.answers.fans is not None:
            response = await fanned(request, asked, route.answers.fans, measured)
        else:
            response = await _seeded(request, raw, asked, measured)
        if response is None:
            response = await _unspeculated(request, raw, asked, measured)
        return response


async def _seeded(
    request: web.Request, raw: bytes, asked: Asked, measured: Measured
) -> web.StreamResponse | None:
    """Relay the answer and seed beside it; None: leave it to the target, nothing is there yet."""
    route = request[ROUTE]
    admission = None
    if asked.kind is not None and asked.body is not None:
        admission = admit(asked.kind, asked.body)
    if admission is None or not route.answers.speculates:
        return None
    outgoing = Outgoing(request, Mode.SEEDING)
    answer = _Answer(request, raw, admission, outgoing)
    async with AsyncExitStack() as stack:
        async with outgoing.waiting(streamed=admission.streamed):
            lease = route.answers.lease(admission.transcript, named=admission.takes_slot)
            slot = await stack.enter_async_context(lease)
            session = await stack.enter_async_context(route.answers.session(admission))
        if slot is not None and session is not None:
            try:
                if admission.streamed:
                    return await answer.stream(slot, session)
                return await answer.whole(slot, session)
            except NotAssembled as error:
                log.info("asking again without a stream", reason=str(error))
            finally:
                answer.account(session, measured)
    return None


async def _unspeculated(
    request: web.Request, raw: bytes, asked: Asked, measured: Measured
) -> web.StreamResponse:
    """Leave the request to the target alone, and count it."""
    route = request[ROUTE]
    outgoing = outgoing_of(request) or Outgoing(request, Mode.PASSTHROUGH)
    outcome = "cancelled"
    listener = asked.listener()
    try:
        async with _placed(request, raw, asked, outgoing) as body:
            response = await passthrough(request, body, asked, outgoing=outgoing, listener=listener)
        outcome = outcome_of(response, listener)
        return response
    except TargetError:
        outcome = "broken"
        raise
    finally:
        if listener is not None and outcome == "finished":
            measured.timed(listener.timings, speculated=False)
        requests = request.app[METRICS].requests
        requests.labels(route.name, Mode.PASSTHROUGH.value, outcome).inc()


@asynccontextmanager
async def _placed(
    request: web.Request, raw: bytes, asked: Asked, outgoing: Outgoing
) -> AsyncIterator[bytes]:
    """The body for the target, which has slots for it while the context lasts.

    A conversation gets a lease: the target might take the seed slot, or one that another comes
    back to. Anything else (several choices, a slot of the client's choice) does not wait for one;
    nobody is sent to those that it takes.
    """
    answers, kind, body = request[ROUTE].answers, asked.kind, asked.body
    if kind is None or body is None:
        yield raw
        return
    transcript, named = transcript_of(kind, body), takes_slot(kind)
    if transcript is None:
        num_each = num_choices_each(kind, body)
        with answers.beside(num_prompts(kind, body), num_each, named_slot(kind, body)):
            yield raw
        return
    async with AsyncExitStack() as stack:
        async with outgoing.waiting(streamed=asked.streamed):
            slot = await stack.enter_async_context(answers.lease(transcript, named=named))
        yield with_slot(raw, slot) if named and slot is not None else raw


class _Answer:
    """One answer on its way from the target to the client."""

    def __init__(
        self, request: web.Request, raw: bytes, admission: Admission, outgoing: Outgoing
    ) -> None:
        self._request = request
        self._raw = raw
        self._admission = admission
        self._outgoing = outgoing
        self._client = request[ROUTE].client
        self._listener: Listener | None = None
        self._outcome = "cancelled"

    def _upstream(self, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = for_target(
            self._request.headers,
            credentials=shares_key(self._request),
            request_id=self._request[REQUEST_ID],
        )
        headers["Accept-Encoding"] = "identity"  # the proxy reads along
        return self._client.request(
            "POST", self._request.rel_url.raw_path_qs, headers=headers, data=body
        )

    async def stream(self, slot: int, session: Session) -> web.StreamResponse:
        """Relay the stream that the client asked for.

        Raises:
            TargetUnreachable: it did not begin.
            TargetBroken: it ended early.
        """
        admission = self._admission
        listener = self._listener = Listener(admission.kind, session)
        body = with_slot(self._raw, slot) if admission.takes_slot else self._raw
        try:
            async with AsyncExitStack() as stack:
                async with self._outgoing.waiting(streamed=True):
                    upstream = await stack.enter_async_context(self._upstream(body))
                if not is_stream(upstream):
                    self._outcome = "refused"
                    return await self._outgoing.relay(upstream)
                response = await self._outgoing.relay(upstream, listener)
        except TargetError:
            self._outcome = "broken"
            raise
        self._outcome = outcome_of(response, listener)
        return response

    async def whole(self, slot: int, session: Session) -> web.StreamResponse:
        """Assemble the one answer that the client asked for.

        Raises:
            NotAssembled: the stream does not hold all of it; ask as the client asked.
            TargetUnreachable: the stream did not begin.
            TargetBroken: it ended early.
        """
        kind, body = self._admission.kind, dict(self._admission.body)
        assembler = Assembler(kind, body)
        listener = self._listener = Listener(kind, session, assembler)
        wanted = json.dumps({**streamed_body(kind, body), "id_slot": slot}).encode()
        try:
            async with self._upstream(wanted) as upstream:
                if not is_stream(upstream):
                    self._outcome = "refused"
                    return await self._outgoing.relay(upstream)
                headers = for_client(upstream.headers)
                async for _ in listener.read(self._client, upstream):
                    pass
            result, status = assembler.result(), 200
        except TargetErrorReply as error:
            result, status = error.body, error.status
        except NotAssembled:
            self._outcome = "asked_again"
            raise
        except TargetError:
            self._outcome = "broken"
            raise
        self._outcome = "finished" if status == 200 else "refused"
        headers.popall("Cache-Control", None)
        headers["Content-Type"] = "application/json; charset=utf-8"
        headers[ROUTE_HEADER] = self._request[ROUTE].name
        headers[MODE_HEADER] = Mode.SEEDING.value
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        return web.Response(
            status=status, headers=headers, body=text.encode("utf-8", "surrogatepass")
        )

    def account(self, session: Session, measured: Measured) -> None:
        """Count and log how the answer went."""
        route, metrics = self._request[ROUTE], self._request.app[METRICS]
        listener = self._listener
        counts = session.counts
        if listener is not None and listener.finished and not listener.failed:
            counts.finished(listener.timings)
            measured.timed(listener.timings, speculated=True)
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
