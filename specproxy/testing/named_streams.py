"""Streams of named events: Anthropic messages and OpenAI responses, and their plain answers.

Follows server_task_result_cmpl_partial and _final of llama.cpp's tools/server/server-task.cpp.
"""

import json
import secrets

from specproxy.testing.chat_reader import ChatReader, Diff, Message, read_message
from specproxy.testing.shapes import Json, Reply, dumps, text_of, timings
from specproxy.testing.slot import Final, Partial, Task


def named_event(body: Json) -> bytes:
    """One server-sent event with its type as its name."""
    return b"event: " + str(body["type"]).encode() + b"\ndata: " + dumps(body) + b"\n\n"


class MessagesStream:
    """Anthropic's events of one answer."""

    def __init__(self, reply: Reply, task: Task) -> None:
        self._reply = reply
        self._task = task
        self._reader = ChatReader(task.params)
        self._open: list[str] = []  # blocks that have begun

    def partial(self, result: Partial) -> bytes:
        events: list[Json] = []
        if result.num_predicted == 1:
            message = _message(self._reply, self._task, [], None, 0)
            events.append({"type": "message_start", "message": message})
        events += self._blocks(self._reader.read(text_of(result.text)))
        return b"".join(map(named_event, events))

    def final(self, result: Final) -> bytes:
        events = self._blocks(self._reader.end())
        events += [
            {"type": "content_block_stop", "index": index} for index in range(len(self._open))
        ]
        stop = {"stop_reason": _stop_reason(result, self._reader.message), "stop_sequence": None}
        used = {"output_tokens": result.stats.num_predicted}
        events.append({"type": "message_delta", "delta": stop, "usage": used})
        events.append({"type": "message_stop"})
        return b"".join(map(named_event, events))

    def _blocks(self, diffs: list[Diff]) -> list[Json]:
        events: list[Json] = []
        for diff in diffs:
            if diff.call is not None:
                name, added = f"call {diff.call}", {"partial_json": diff.arguments}
                block = {"type": "tool_use", "id": secrets.token_hex(8), "name": diff.name}
                kind = "input_json_delta"
            elif diff.reasoning:
                name, added, kind = "thinking", {"thinking": diff.reasoning}, "thinking_delta"
                block = {"type": "thinking", "thinking": ""}
            else:
                name, added, kind = "text", {"text": diff.content}, "text_delta"
                block = {"type": "text", "text": ""}
            if name not in self._open:
                self._open.append(name)
                place = len(self._open) - 1
                events.append(
                    {"type": "content_block_start", "index": place, "content_block": block}
                )
            if any(added.values()):
                place = self._open.index(name)
                delta = {"type": kind, **added}
                events.append({"type": "content_block_delta", "index": place, "delta": delta})
        return events


class ResponsesStream:
    """OpenAI's events of one response."""

    def __init__(self, reply: Reply, task: Task) -> None:
        self._reply = reply
        self._task = task
        self._reader = ChatReader(task.params)
        self._open: set[str] = set()

    def partial(self, result: Partial) -> bytes:
        events: list[Json] = []
        if result.num_predicted == 1:
            response = {"id": self._reply.id, "object": "response", "status": "in_progress"}
            events = [
                {"type": "response.created", "response": response},
                {"type": "response.in_progress", "response": response},
            ]
        events += self._items(self._reader.read(text_of(result.text)))
        return b"".join(map(named_event, events))

    def final(self, result: Final) -> bytes:
        events = self._items(self._reader.end())
        body = response_body(self._reply, self._task, result)
        events.append({"type": "response.completed", "response": body})
        events[-1]["timings"] = timings(result.stats)
        return b"".join(map(named_event, events))

    def _items(self, diffs: list[Diff]) -> list[Json]:
        events: list[Json] = []
        for diff in diffs:
            if diff.name:
                item = {"type": "function_call", "name": diff.name, "arguments": ""}
                events.append({"type": "response.output_item.added", "item": item})
            elif diff.call is not None:
                kind = "response.function_call_arguments.delta"
                events.append({"type": kind, "delta": diff.arguments})
            else:
                kind = "reasoning" if diff.reasoning else "message"
                if kind not in self._open:
                    self._open.add(kind)
                    added = {"type": kind, "status": "in_progress"}
                    events.append({"type": "response.output_item.added", "item": added})
                name = "reasoning_text" if diff.reasoning else "output_text"
                text = diff.reasoning or diff.content
                events.append({"type": f"response.{name}.delta", "delta": text})
        return events


def messages_body(reply: Reply, task: Task, final: Final) -> Json:
    """The plain answer of the messages route."""
    message = read_message(text_of(final.text), task.params)
    blocks: list[Json] = []
    if message.reasoning:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    for call in message.calls:
        id_ = secrets.token_hex(8)
        blocks.append(
            {"type": "tool_use", "id": id_, "name": call.name, "input": _read(call.arguments)}
        )
    reason = _stop_reason(final, message)
    return _message(reply, task, blocks, reason, final.stats.num_predicted)


def response_body(reply: Reply, task: Task, final: Final) -> Json:
    """The plain answer of the responses route."""
    message = read_message(text_of(final.text), task.params)
    output: list[Json] = []
    if message.reasoning:
        content = [{"text": message.reasoning, "type": "reasoning_text"}]
        output.append({"type": "reasoning", "content": content})
    if message.content:
        text = [{"type": "output_text", "text": message.content, "annotations": []}]
        output.append({"type": "message", "role": "assistant", "content": text})
    output += [
        {"type": "function_call", "name": call.name, "arguments": call.arguments}
        for call in message.calls
    ]
    num_tokens = final.stats.num_predicted
    return {
        "completed_at": 0,
        "created_at": 0,
        "id": reply.id,
        "model": reply.model,
        "object": "response",
        "output": output,
        "status": "completed",
        "usage": {
            "input_tokens": len(task.prompt),
            "output_tokens": num_tokens,
            "total_tokens": len(task.prompt) + num_tokens,
        },
    }


def _message(
    reply: Reply, task: Task, content: list[Json], reason: str | None, num_tokens: int
) -> Json:
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "content": content,
        "model": reply.model,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": len(task.prompt), "output_tokens": num_tokens},
    }


def _stop_reason(final: Final, message: Message) -> str:
    if final.stop_type not in ("word", "eos"):
        return "max_tokens"
    return "tool_use" if message.calls else "end_turn"


def _read(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}
