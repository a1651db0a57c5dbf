"""OpenAI's chat completions: messages in, one message or its deltas out.

Source: `oaicompat_chat_params_parse` and `to_json_oaicompat_chat*` of llama.cpp's tools/server at
0c1e570. Invariant: the deltas of a stream, joined, are the message of the whole answer, but for
text that a limit cuts off within a character or within the beginning of a stop string.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specproxy.coordinator.answer_format import AnswerPlan
from specproxy.coordinator.http.answer import Answer, Final, Partial, Result
from specproxy.coordinator.http.fields import Fields
from specproxy.coordinator.http.replies import Json
from specproxy.coordinator.http.shapes import (
    NativeShape,
    Reply,
    joined_choices,
    kept_probs,
    probs_json,
)
from specproxy.coordinator.http.text import shown
from specproxy.coordinator.served import ServedModel
from specproxy.coordinator.tools.protocol import (
    Content,
    Delta,
    Reasoning,
    ToolCallArguments,
    ToolCallStart,
)
from specproxy.errors import RequestError

_DEFAULT_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request beside the fields that all requests have.

    Attributes:
        prompt: as text; control tokens in it are meant as such.
        plan: how its answers are generated and read.
        prefill: the beginning of the answer that the request already has.
        echoes: streams begin with the prefill, too; whole answers always do.
    """

    prompt: str
    plan: AnswerPlan
    num_top_logprobs: int
    prefill: str
    echoes: bool


def read_chat(body: Json, model: ServedModel) -> ChatRequest:
    """
    Raises:
        RequestError: the messages, tools or fields are wrong or not supported.
    """
    fields = Fields(body)
    prompt = model.template.apply(body)
    uses_tools = bool(fields.value("tools")) and fields.value("tool_choice") != "none"
    return ChatRequest(
        prompt=prompt,
        plan=model.format.plan(prompt, body),
        num_top_logprobs=_read_top_logprobs(fields, streams_tools=uses_tools),
        prefill=_prefill(body),
        echoes=not body.get("continue_final_message"),
    )


@dataclass
class _Message:
    """What has been read of one answer's message."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, Json] = field(default_factory=dict)

    def add(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            match delta:
                case Content(text):
                    self.content += text
                case Reasoning(text):
                    self.reasoning += text
                case ToolCallStart(index, id, name):
                    function = {"name": name, "arguments": ""}
                    self.calls[index] = {"type": "function", "function": function, "id": id}
                case ToolCallArguments(index, fragment):
                    self.calls[index]["function"]["arguments"] += fragment

    def json(self) -> Json:
        message: Json = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [call for _, call in sorted(self.calls.items())]
        return message


class _Reader:
    """One streamed answer: its parser, and what it has found so far."""

    def __init__(self, request: ChatRequest) -> None:
        self._parser = request.plan.parser()
        self._before = request.prefill if request.echoes else ""
        self.message = _Message()

    def feed(self, text: str) -> list[Delta]:
        return self._found(self._parser.feed(text))

    def finish(self) -> list[Delta]:
        return self._found(self._parser.finish())

    def _found(self, deltas: list[Delta]) -> list[Delta]:
        if self._before:
            deltas, self._before = [Content(self._before), *deltas], ""
        deltas = _merged(deltas)
        self.message.add(deltas)
        return deltas


class ChatShape:
    """`/v1/chat/completions`."""

    ends_with_done = True

    def __init__(self, reply: Reply, request: ChatRequest) -> None:
        self._reply = reply
        self._request = request
        self._native = NativeShape(reply, chat=True)
        self._readers: dict[int, _Reader] = {}

    def events(self, answer: Answer, result: Result) -> list[Json]:
        reader = self._readers.get(answer.index)
        if reader is None:
            reader = self._readers[answer.index] = _Reader(self._request)
        if isinstance(result, Partial):
            return self._partial(answer, result, reader)
        return self._final(answer, result, reader)

    def whole(self, answer: Answer, final: Final) -> Json:
        parser, message = self._request.plan.parser(), _Message(content=self._request.prefill)
        message.add(parser.feed(shown(final.text)))
        message.add(parser.finish())
        choice: Json = {
            "finish_reason": _finish_reason(final, message),
            "index": answer.index,
            "message": message.json(),
        }
        probs = kept_probs(final, self._reply.vocabulary)
        if probs:
            choice["logprobs"] = {"content": probs_json(probs, self._reply.vocabulary)}
        native = self._native.json(answer, final, streamed=False)
        return {
            "choices": [choice],
            "created": int(time.time()),
            "model": self._reply.model,
            "system_fingerprint": self._reply.fingerprint,
            "object": "chat.completion",
            "usage": final.timings.usage(),
            "id": self._reply.id,
            **({"__verbose": native} if answer.parameters.verbose else {}),
            "timings": final.timings.json(),
        }

    def joined(self, wholes: list[Json]) -> Json:
        return joined_choices(wholes)

    def _partial(self, answer: Answer, partial: Partial, reader: _Reader) -> list[Json]:
        """The role comes with the first token, if that one completes a character."""
        chunks = []
        if partial.num_predicted == 1:
            chunks.append(self._chunk(answer, {"role": "assistant", "content": None}))
        chunks += self._deltas(answer, reader.feed(shown(partial.text)))
        if chunks and partial.probs is not None and partial.probs.top:
            content = probs_json([partial.probs], self._reply.vocabulary)
            chunks[-1]["choices"][0]["logprobs"] = {"content": content}
        if chunks and partial.timings is not None:
            chunks[-1]["timings"] = partial.timings.json()
        return chunks

    def _final(self, answer: Answer, final: Final, reader: _Reader) -> list[Json]:
        chunks = self._deltas(answer, reader.finish())
        chunks.append(self._chunk(answer, {}, _finish_reason(final, reader.message)))
        if answer.parameters.include_usage:
            last = {**self._chunk(answer, {}), "choices": []}
            chunks.append({**last, "usage": final.timings.usage()})
        chunks[-1]["timings"] = final.timings.json()
        if answer.parameters.verbose:
            chunks[0]["__verbose"] = self._native.json(answer, final, streamed=True)
        return chunks

    def _deltas(self, answer: Answer, deltas: Sequence[Delta]) -> list[Json]:
        return [self._chunk(answer, _delta_json(delta)) for delta in deltas]

    def _chunk(self, answer: Answer, delta: Json, finish_reason: str | None = None) -> Json:
        choice = {"finish_reason": finish_reason, "index": answer.index, "delta": delta}
        return {
            "choices": [choice],
            "created": int(time.time()),
            "id": self._reply.id,
            "model": self._reply.model,
            "system_fingerprint": self._reply.fingerprint,
            "object": "chat.completion.chunk",
        }


def _delta_json(delta: Delta) -> Json:
    match delta:
        case Content(text):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning_content": text}
        case ToolCallStart(index, id, name):
            call: Json = {"index": index, "id": id, "type": "function", "function": {"name": name}}
            return {"tool_calls": [call]}
        case ToolCallArguments(index, fragment):
            return {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}


def _merged(deltas: Sequence[Delta]) -> list[Delta]:
    """Neighbouring texts of one kind as one."""
    merged: list[Delta] = []
    for delta in deltas:
        last = merged[-1] if merged else None
        if isinstance(delta, Content) and isinstance(last, Content):
            merged[-1] = Content(last.text + delta.text)
        elif isinstance(delta, Reasoning) and isinstance(last, Reasoning):
            merged[-1] = Reasoning(last.text + delta.text)
        else:
            merged.append(delta)
    return merged


def _finish_reason(final: Final, message: _Message) -> str:
    reason = final.finish_reason
    return "tool_calls" if reason == "stop" and message.calls else reason


def _prefill(body: Json) -> str:
    """The last message's content where that is the assistant's, for it is continued."""
    messages: list[Any] = body["messages"]
    if not messages or messages[-1].get("role") != "assistant":
        return ""
    content = messages[-1].get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content)


def _read_top_logprobs(fields: Fields, *, streams_tools: bool) -> int:
    if fields.flag("logprobs"):
        if streams_tools and fields.flag("stream"):
            raise RequestError(
                "Field 'logprobs': not supported with tools in a stream.",
                remedy="Ask without a stream.",
            )
        return fields.integer("top_logprobs", default=_DEFAULT_TOP_LOGPROBS, low=0)
    if fields.value("top_logprobs") is not None:
        raise RequestError(
            "Field 'top_logprobs': it requires logprobs.", remedy="Set logprobs to true."
        )
    return max(0, fields.integer("n_probs", default=0, low=-(2**31)))
