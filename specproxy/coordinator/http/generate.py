"""The generating routes: a request becomes answers, their results a stream or one body.

Invariant: a generation ends with its handler, however that ends; a client that leaves frees its
place at once. After the headers are out, a failure ends with an error event and no clean end.
"""

import secrets
import string
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from aiohttp import web

from specproxy.coordinator.channel import Drafting
from specproxy.coordinator.formats import grammar_for
from specproxy.coordinator.http.answer import Answer, Final
from specproxy.coordinator.http.chat import ChatShape, read_chat
from specproxy.coordinator.http.fields import Fields
from specproxy.coordinator.http.parameters import Parameters, read_parameters
from specproxy.coordinator.http.prompts import Prompt, least_tokens, read_prompts
from specproxy.coordinator.http.race import Race
from specproxy.coordinator.http.replies import (
    Json,
    PromptTooLong,
    body_of_error,
    error_body,
    event,
    json_reply,
    read_json,
)
from specproxy.coordinator.http.service import SERVICE, Service
from specproxy.coordinator.http.shapes import NativeShape, Reply, Shape, TextShape
from specproxy.coordinator.served import ServedModel
from specproxy.core.drafts import HEADER
from specproxy.errors import SpecproxyError

log = structlog.get_logger(__name__)

Kind = Literal["native", "text", "chat"]
_PING = b":\n\n"
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Job:
    """What one HTTP request asks for.

    Attributes:
        special_texts: control tokens that count as text in its answers.
    """

    prompts: Sequence[Prompt]
    parameters: Parameters
    shape: Shape
    special_texts: frozenset[str] = frozenset()


async def native(request: web.Request) -> web.StreamResponse:
    """`/completion` and `/completions`."""
    return await _generate(request, "native")


async def text(request: web.Request) -> web.StreamResponse:
    """`/v1/completions`."""
    return await _generate(request, "text")


async def chat(request: web.Request) -> web.StreamResponse:
    """`/v1/chat/completions` and `/chat/completions`."""
    return await _generate(request, "chat")


def read_job(kind: Kind, body: Json, model: ServedModel) -> Job:
    """
    Raises:
        RequestError: the request cannot be served as it is.
    """
    engine, vocabulary = model.engine, model.engine.vocabulary
    fields = Fields(body)
    max_choices = max(1, len(engine.states()))
    reply = Reply(new_id(), engine.model_name, vocabulary)
    if kind == "chat":
        asked = read_chat(body, model)
        parameters = read_parameters(
            fields,
            vocabulary,
            grammar=asked.plan.grammar,
            max_choices=max_choices,
            num_top_logprobs=asked.num_top_logprobs,
        )
        check_length(asked.prompt, model)
        prompts = read_prompts(asked.prompt, vocabulary)
        return Job(prompts, parameters, ChatShape(reply, asked), asked.plan.special_texts)
    check_length(body.get("prompt"), model)
    prompts = read_prompts(body.get("prompt"), vocabulary)
    grammar = grammar_for(body)
    parameters = read_parameters(fields, vocabulary, grammar=grammar, max_choices=max_choices)
    return Job(prompts, parameters, NativeShape(reply) if kind == "native" else TextShape(reply))


def check_length(prompt: object, model: ServedModel) -> None:
    """A text that cannot fit is refused before it is tokenized, which would hold up everybody.

    Raises:
        PromptTooLong: it is one.
    """
    num_tokens = least_tokens(prompt, model.longest_piece)
    if num_tokens >= model.num_context:
        raise PromptTooLong(num_tokens, model.num_context)


def new_id() -> str:
    """A name for an answer, as llama-server makes them."""
    return "chatcmpl-" + "".join(secrets.choice(_LETTERS) for _ in range(32))


async def _generate(request: web.Request, kind: Kind) -> web.StreamResponse:
    service = request.app[SERVICE]
    model = service.ready()
    job = read_job(kind, await read_json(request), model)
    with _begun(request, job, service, model) as answers:
        async with Race(answers) as race:
            if job.parameters.stream:
                return await _stream(request, job, race)
            return json_reply(await whole(job, race))


@contextmanager
def _begun(
    request: web.Request, job: Job, service: Service, model: ServedModel
) -> Iterator[list[Answer]]:
    """The request's answers, generating; all are closed in the end.

    Raises:
        RequestError: a prompt does not fit.
        CoordinatorError: the engine is gone.
    """
    answers: list[Answer] = []
    num_choices = job.parameters.num_choices
    is_single = len(job.prompts) * num_choices == 1
    try:
        for prompt in job.prompts:
            if len(prompt) >= model.num_context:
                raise PromptTooLong(len(prompt), model.num_context)
        for prompt in job.prompts:
            for choice in range(num_choices):
                drafting = Drafting()
                if is_single and prompt:
                    drafting = service.channels.drafting(request.headers.get(HEADER))
                answers.append(_begin(len(answers), prompt, choice, job, service, model, drafting))
        service.counts.num_running += len(answers)
        try:
            yield answers
        finally:
            service.counts.num_running -= len(answers)
    finally:
        for answer in answers:
            answer.close()


def _begin(
    index: int,
    prompt: Prompt,
    choice: int,
    job: Job,
    service: Service,
    model: ServedModel,
    drafting: Drafting,
) -> Answer:
    vocabulary = model.engine.vocabulary
    generation = None
    if prompt:
        wanted = replace(job.parameters.request(prompt, choice), drafted=drafting.is_open)
        try:
            generation = model.engine.generate(wanted)
        except BaseException:
            drafting.end()
            raise
        drafting.begin(generation, prompt)

    def piece(token: int) -> bytes:
        literal = vocabulary.special_text(token) if job.special_texts else None
        if literal is not None and literal in job.special_texts:
            return literal.encode()
        return vocabulary.piece(token)

    return Answer(
        index,
        prompt,
        job.parameters,
        generation,
        piece=piece,
        is_end=vocabulary.is_end,
        drafting=drafting,
        counts=service.counts,
    )


async def whole(job: Job, race: Race) -> Json | list[Json]:
    """The one body that the job asks for."""
    finals: dict[int, tuple[Answer, Final]] = {}
    while (found := await race.next()) is not None:
        answer, result = found
        if isinstance(result, Final):
            finals[answer.index] = (answer, result)
    wholes = [job.shape.whole(*finals[index]) for index in sorted(finals)]
    return job.shape.joined(wholes)


async def _stream(request: web.Request, job: Job, race: Race) -> web.StreamResponse:
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = "text/event-stream"
    await response.prepare(request)
    try:
        async for data in events(job, race):
            await response.write(data)
    except SpecproxyError as error:
        log.warning("an answer broke off", reason=str(error))
        await _break_off(request, response, body_of_error(error))
    except ConnectionError:
        raise
    except Exception:
        log.exception("an answer broke off")
        body = error_body("The coordinator failed; its log tells more.", "server_error", 500)
        await _break_off(request, response, body)
    else:
        await response.write_eof()
    return response


async def events(job: Job, race: Race) -> AsyncIterator[bytes]:
    """The stream's bytes, with a comment now and then while nothing comes."""
    interval_s = job.parameters.ping_interval_s
    while True:
        try:
            found = await race.next(interval_s if interval_s > 0 else None)
        except TimeoutError:
            yield _PING
            continue
        if found is None:
            break
        chunks = job.shape.events(*found)
        if chunks:
            yield b"".join(event(chunk) for chunk in chunks)
    if job.shape.ends_with_done:
        yield b"data: [DONE]\n\n"


async def _break_off(request: web.Request, response: web.StreamResponse, body: Json) -> None:
    """Say what happened, and close the connection so that the body has no clean end."""
    await response.write(event(body))
    if request.transport is not None:
        request.transport.close()
