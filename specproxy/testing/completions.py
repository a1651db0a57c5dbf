"""The generating routes of the scripted target, streamed and not.

Invariant: a task ends with its handler: a client that leaves frees its slot.
"""

import asyncio
import json
import random
import string
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from specproxy.testing import shapes
from specproxy.testing.chat import BadRequest, chat_prompt
from specproxy.testing.chat_stream import ChatStream, chat_final
from specproxy.testing.converted import chat_body
from specproxy.testing.faults import Break, Faults
from specproxy.testing.language import Language
from specproxy.testing.named_streams import (
    MessagesStream,
    ResponsesStream,
    messages_body,
    response_body,
)
from specproxy.testing.parameters import (
    RANDOM_SEED,
    CompletionParams,
    read_params,
    read_prompts,
)
from specproxy.testing.pass_loop import PassLoop
from specproxy.testing.slot import Begin, Failed, Final, Partial, Result, Task
from specproxy.testing.writer import BrokenOff, Writer

Chat = ChatStream | MessagesStream | ResponsesStream
CHATS: dict[str, type[Chat]] = {
    "chat": ChatStream,
    "messages": MessagesStream,
    "responses": ResponsesStream,
}


@dataclass
class Served:
    """The server process behind the routes; `down` and `up` replace it."""

    language: Language
    passes: PassLoop
    model: str
    entropy: random.Random
    media_marker: str = "<__media__>"
    own_limit: int = -1
    num_tasks: int = 0

    @property
    def speculative(self) -> bool:
        return self.passes.engine.pool is not None

    def submit(self, tasks: list[Task]) -> None:
        for task in tasks:
            self.passes.engine.submit(task)
        self.passes.wake()

    def cancel(self, tasks: list[Task]) -> None:
        for task in tasks:
            self.passes.engine.cancel(task)
        self.passes.wake()


@dataclass(eq=False)
class Job:
    """The tasks of one HTTP request and the results they emit."""

    kind: str
    served: Served
    reply: shapes.Reply
    tasks: list[Task] = field(default_factory=list)
    results: asyncio.Queue[tuple[Task, Result]] = field(default_factory=asyncio.Queue)

    def add(self, prompt: list[int], params: CompletionParams, *, is_child: bool) -> None:
        served = self.served
        served.num_tasks += 1
        seed = params.sampling.seed
        if seed == RANDOM_SEED:
            seed = served.entropy.getrandbits(32)
        task = Task(
            id=served.num_tasks,
            prompt=prompt,
            params=params,
            seed=seed,
            emit=lambda result: self.results.put_nowait((task, result)),
            index=len(self.tasks),
            is_child=is_child,
        )
        self.tasks.append(task)


def read_job(served: Served, kind: str, body: dict[str, Any]) -> Job:
    """The tasks a request asks for. `kind`: native, infill, text, chat, messages or responses.

    Raises:
        BadRequest: the answer is status 400.
    """
    if kind in ("messages", "responses"):
        body = chat_body(kind, body)
    chat = kind in CHATS
    if chat:
        body = {**body, "prompt": chat_prompt(body)}
    elif kind == "infill":
        body = {**body, "prompt": f"{body.get('input_prefix', '')}{body.get('prompt', '')}"}
    prompts = read_prompts(body, served.language.vocabulary)
    params = read_params(
        body,
        num_slots=len(served.passes.engine.slots),
        chat=chat,
        thinks=served.language.thinks,
        own_limit=served.own_limit,
    )
    letters = string.ascii_letters + string.digits
    name = "chatcmpl-" + "".join(served.entropy.choices(letters, k=32))
    reply = shapes.Reply(served.language.vocabulary, served.model, name, served.speculative)
    job = Job(kind, served, reply)
    for prompt in prompts:
        for choice in range(params.num_choices):
            job.add(list(prompt), params, is_child=choice > 0)
    return job


async def complete(
    request: web.Request, served: Served, faults: Faults, kind: str
) -> web.StreamResponse:
    """Answer one generating request."""
    job = read_job(served, kind, read_json(await request.read()))
    served.submit(job.tasks)
    try:
        if job.tasks[0].params.stream:
            return await _stream(request, job, faults)
        return await _whole(request, job, faults)
    finally:
        served.cancel(job.tasks)


def read_json(data: bytes) -> dict[str, Any]:
    """The body as an object.

    Raises:
        BadRequest: with status 500, as the original answers what it cannot parse.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as cause:
        message = f"[json.exception.parse_error.101] parse error: {cause}"
        raise BadRequest(message, status=500) from cause
    if not isinstance(body, dict):
        message = "[json.exception.type_error.304] cannot use at() with this type"
        raise BadRequest(message, status=500)
    return body


async def _whole(request: web.Request, job: Job, faults: Faults) -> web.StreamResponse:
    finals: dict[int, tuple[Task, Final]] = {}
    while len(finals) < len(job.tasks):
        task, result = await job.results.get()
        if isinstance(result, Failed):
            return _refused(result)
        if isinstance(result, Final):
            finals[task.index] = (task, result)
    answers = [_final_json(job, *finals[index]) for index in sorted(finals)]
    answer: Any = answers[0]
    if len(answers) > 1:
        if job.kind not in ("chat", "text"):
            answer = answers
        else:
            answer["choices"] = [choice for one in answers for choice in one["choices"]]
    return await send_body(request, shapes.dumps(answer), faults)


async def send_body(request: web.Request, body: bytes, faults: Faults) -> web.StreamResponse:
    """A JSON answer of status 200, broken in the middle if a stream fault says so."""
    ends_early = (Break.MALFORMED, Break.CLEAN_END)
    if faults.stream is not None and faults.stream.kind in ends_early:
        body = body[: len(body) // 2]
        faults = Faults()
    response = web.StreamResponse()
    response.content_type = "application/json"
    response.charset = "utf-8"
    response.content_length = len(body)
    try:
        await response.prepare(request)
        await Writer(request, response, faults).body(body)
        await response.write_eof()
    except (BrokenOff, ConnectionError):  # or the client has left
        pass
    return response


async def break_body(
    request: web.Request, like: web.Response, body: bytes, faults: Faults
) -> web.StreamResponse:
    """A body of unknown length, of which the first half comes before the fault strikes."""
    response = web.StreamResponse(
        status=like.status, headers={"Content-Type": like.headers["Content-Type"]}
    )
    await response.prepare(request)
    with suppress(BrokenOff, ConnectionError):
        await Writer(request, response, faults).body(body)
    return response


async def _stream(request: web.Request, job: Job, faults: Faults) -> web.StreamResponse:
    task, result = await job.results.get()
    if isinstance(result, Failed):
        return _refused(result)
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = "text/event-stream"
    writer = Writer(request, response, faults)
    reader = CHATS.get(job.kind, ChatStream)
    chats = {one.index: reader(job.reply, one) for one in job.tasks}
    num_open = len(job.tasks)
    try:
        await response.prepare(request)
        if not isinstance(result, Begin):
            num_open -= isinstance(result, Final)
            await writer.event(_events(job, task, result, chats), is_finish=num_open == 0)
        while num_open:
            task, result = await job.results.get()
            if isinstance(result, Failed):
                await writer.event(shapes.event(shapes.refusal(result)))
                return response
            num_open -= isinstance(result, Final)
            await writer.event(_events(job, task, result, chats), is_finish=num_open == 0)
        if job.kind in ("chat", "text"):
            await writer.done()
    except (BrokenOff, ConnectionError):  # or the client has left
        pass
    return response


def _events(job: Job, task: Task, result: Result, chats: Mapping[int, Chat]) -> bytes:
    if isinstance(result, Begin):
        return shapes.event(None)
    assert isinstance(result, Partial | Final)
    if job.kind in CHATS:
        stream = chats[task.index]
        return stream.partial(result) if isinstance(result, Partial) else stream.final(result)
    if job.kind == "text":
        return shapes.event(shapes.text_chunk(job.reply, task, result))
    return shapes.event(shapes.native(job.reply, task, result))


def _final_json(job: Job, task: Task, final: Final) -> Any:
    if job.kind == "messages":
        return messages_body(job.reply, task, final)
    if job.kind == "responses":
        return response_body(job.reply, task, final)
    if job.kind == "chat":
        return chat_final(job.reply, task, final)
    if job.kind == "text":
        return shapes.text_chunk(job.reply, task, final)
    return shapes.native_final(job.reply, task, final)


def _refused(result: Failed) -> web.Response:
    return json_response(shapes.refusal(result), status=result.status)


def json_response(value: object, *, status: int = 200) -> web.Response:
    """A JSON answer; errors close the connection, as the original's HTTP library does."""
    body = shapes.dumps(value)
    response = web.Response(body=body, status=status, content_type="application/json")
    response.charset = "utf-8"
    if status >= 400:
        response.force_close()
    return response
