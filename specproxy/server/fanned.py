"""Generation requests in fan-out rounds: the proxy composes the answer from the target's tokens.

It has llama-server's shapes, as the coordinator's answers have. Until its first token is there the
request can still be left to the target, which then judges it; so whatever cannot be carried, or is
refused, passes through.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
from aiohttp import web

from specproxy.coordinator.answer_format import AnswerPlan
from specproxy.coordinator.channel import Drafting
from specproxy.coordinator.http.answer import Answer
from specproxy.coordinator.http.chat import ChatRequest, ChatShape
from specproxy.coordinator.http.fields import Fields
from specproxy.coordinator.http.generate import Job, events, new_id, whole
from specproxy.coordinator.http.metrics import Counts
from specproxy.coordinator.http.parameters import Parameters, read_parameters
from specproxy.coordinator.http.race import Race
from specproxy.coordinator.http.shapes import NativeShape, Reply, TextShape
from specproxy.coordinator.tools.reasoning import PlainParser
from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import RequestError, TargetError
from specproxy.fanned import FannedSession
from specproxy.load import Measured
from specproxy.route import Mode
from specproxy.server.account import log_answer
from specproxy.server.asked import Asked
from specproxy.server.context import METRICS, ROUTE
from specproxy.server.outgoing import MODE_HEADER, ROUTE_HEADER, Outgoing
from specproxy.target.chat_bodies import chat_of
from specproxy.ways.fanout import FanoutWay
from specproxy.ways.plain import PlainRequest

log = structlog.get_logger(__name__)


async def fanned(
    request: web.Request, asked: Asked, way: FanoutWay, measured: Measured
) -> web.StreamResponse | None:
    """Answer in rounds; None: leave it to the target, no answer has been begun."""
    plain = None
    if asked.kind is not None and asked.body is not None:
        plain = way.read(asked.kind, asked.body)
    if plain is None:
        return None
    route = request[ROUTE]
    outgoing = Outgoing(request, Mode.FANOUT)
    try:
        text, prompt = await way.prompt(plain, chat_of(plain.kind, plain.body))
    except TargetError:
        return None
    async with route.answers.fanned(way, plain, prompt) as session:
        if session is None:
            return None
        try:
            parameters = _parameters(plain, way.drafter.vocabulary)
            async with outgoing.waiting(streamed=asked.streamed):
                await session.begin()
            job = _job(plain, parameters, text, prompt, way, session)
        except (TargetError, RequestError) as error:
            log.info("left to the target", reason=str(error))
            return None
        response = await _send(request, job, way, session, outgoing)
        measured.ended(session.counts.num_generated, session.decode_s, speculated=True)
        return response


def _parameters(plain: PlainRequest, vocabulary: Vocabulary) -> Parameters:
    """
    Raises:
        RequestError: a field is wrong; the target says it better.
    """
    limit = -1 if plain.max_tokens is None else plain.max_tokens
    body = {**plain.body, "n_predict": limit}
    return read_parameters(Fields(body), vocabulary, grammar="", max_choices=1, num_top_logprobs=0)


def _job(
    plain: PlainRequest,
    parameters: Parameters,
    text: str,
    prompt: list[int],
    way: FanoutWay,
    session: FannedSession,
) -> Job:
    """How the answer is written.

    Raises:
        RequestError: the target ends or bends answers in a way that rounds cannot follow.
    """
    settings = session.settings
    if settings.get("grammar") or settings.get("stop"):
        raise RequestError("The target has a grammar or stop strings of its own.")
    shown = {
        "stop": list(parameters.stops),
        "max_tokens": parameters.num_predict,
        "n_predict": parameters.num_predict,
        "stream": parameters.stream,
        "timings_per_token": parameters.timings_per_token,
    }
    reply = Reply(
        new_id(),
        way.facts.model,
        way.drafter.vocabulary,
        fingerprint=way.facts.build,
        settings={name: shown.get(name, value) for name, value in settings.items()},
    )
    if plain.kind == "chat":
        assert way.chat_specials is not None, "chats pass through then"
        plan = AnswerPlan("", way.chat_specials, PlainParser)
        chat = ChatRequest(text, plan, num_top_logprobs=0, prefill="", echoes=True)
        return Job([tuple(prompt)], parameters, ChatShape(reply, chat), plan.special_texts)
    shape = NativeShape(reply) if plain.kind == "native" else TextShape(reply)
    return Job([tuple(prompt)], parameters, shape)


@asynccontextmanager
async def _raced(job: Job, session: FannedSession, vocabulary: Vocabulary) -> AsyncIterator[Race]:
    """The answer, on its way while the context lasts."""

    def piece(token: int) -> bytes:
        literal = vocabulary.special_text(token) if job.special_texts else None
        if literal is not None and literal in job.special_texts:
            return literal.encode()
        return vocabulary.piece(token)

    answer = Answer(
        0,
        tuple(job.prompts[0]),
        job.parameters,
        session,
        piece=piece,
        is_end=session.is_end,
        drafting=Drafting(),
        counts=Counts(),
    )
    try:
        async with Race([answer]) as race:
            yield race
    finally:
        answer.close()


async def _send(
    request: web.Request, job: Job, way: FanoutWay, session: FannedSession, outgoing: Outgoing
) -> web.StreamResponse:
    route, metrics = request[ROUTE], request.app[METRICS]
    mode = Mode.FANOUT.value
    outcome = "cancelled"
    try:
        async with _raced(job, session, way.drafter.vocabulary) as race:
            response: web.StreamResponse
            if job.parameters.stream:
                response = await outgoing.write(events(job, race))
            else:
                response = _reply(await whole(job, race), route.name)
        outcome = "finished"
        return response
    except TargetError:
        outcome = "broken"
        raise
    finally:
        metrics.requests.labels(route.name, mode, outcome).inc()
        if session.first_token_s is not None:
            metrics.first_token_s.labels(route.name, mode).observe(session.first_token_s)
        log_answer(
            route,
            kind=request.path,
            outcome=outcome,
            ttft_s=session.first_token_s,
            counts=session.counts,
        )


def _reply(body: Mapping[str, Any] | list[Any], route_name: str) -> web.Response:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return web.Response(
        body=text.encode("utf-8", "surrogatepass"),
        headers={
            "Content-Type": "application/json; charset=utf-8",
            ROUTE_HEADER: route_name,
            MODE_HEADER: Mode.FANOUT.value,
        },
    )
