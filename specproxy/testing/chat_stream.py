"""The events of one streamed chat answer, and the plain one.

Invariant: the deltas of a stream, joined, are the message of the non-streamed answer.
"""

import secrets
import time

from specproxy.testing.chat_reader import ChatReader, Diff, Message, read_message
from specproxy.testing.shapes import (
    FINGERPRINT,
    Json,
    Reply,
    event,
    finish_reason,
    logprobs,
    native_final,
    text_of,
    timings,
    usage,
)
from specproxy.testing.slot import Final, Partial, Task


class ChatStream:
    """Turns results into `chat.completion.chunk` objects, as `compute_diffs` does."""

    def __init__(self, reply: Reply, task: Task) -> None:
        self._reply = reply
        self._task = task
        self._reader = ChatReader(task.params)

    def partial(self, result: Partial) -> bytes:
        """The role chunk comes with the first token, if that one completes a character."""
        chunks = []
        if result.num_predicted == 1:
            chunks.append(self._chunk({"role": "assistant", "content": None}))
        chunks += self._deltas(self._reader.read(text_of(result.text)))
        if chunks and result.probs:
            content = logprobs([result.probs], self._reply.vocabulary)
            chunks[-1]["choices"][0]["logprobs"] = {"content": content}
        if chunks and result.stats:
            chunks[-1]["timings"] = timings(result.stats)
        return b"".join(map(event, chunks))

    def final(self, result: Final) -> bytes:
        """What was held back, the finish chunk, and the usage chunk if asked for."""
        chunks = self._deltas(self._reader.end())
        reason = chat_finish_reason(result, self._reader.message)
        chunks.append(self._chunk({}, reason))
        if self._task.params.include_usage:
            last = self._chunk({})
            chunks.append({**last, "choices": [], "usage": usage(self._task, result.stats)})
        chunks[-1]["timings"] = timings(result.stats)
        if self._task.params.verbose:
            chunks[0]["__verbose"] = native_final(self._reply, self._task, result)
        return b"".join(map(event, chunks))

    def _deltas(self, diffs: list[Diff]) -> list[Json]:
        return [self._chunk(_delta(diff)) for diff in diffs]

    def _chunk(self, delta: Json, finish: str | None = None) -> Json:
        return {
            "choices": [{"finish_reason": finish, "index": self._task.index, "delta": delta}],
            "created": int(time.time()),
            "id": self._reply.id,
            "model": self._reply.model,
            "system_fingerprint": FINGERPRINT,
            "object": "chat.completion.chunk",
        }


def _delta(diff: Diff) -> Json:
    if diff.call is None:
        return (
            {"reasoning_content": diff.reasoning} if diff.reasoning else {"content": diff.content}
        )
    call: Json = {"index": diff.call}
    if diff.name:
        call |= {"id": secrets.token_hex(16), "type": "function", "function": {"name": diff.name}}
    else:
        call["function"] = {"arguments": diff.arguments}
    return {"tool_calls": [call]}


def chat_final(reply: Reply, task: Task, final: Final) -> Json:
    read = read_message(text_of(final.text), task.params)
    message: Json = {"role": "assistant", "content": read.content}
    if read.reasoning:
        message["reasoning_content"] = read.reasoning
    if read.calls:
        message["tool_calls"] = [
            {
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                "id": secrets.token_hex(16),
            }
            for call in read.calls
        ]
    reason = chat_finish_reason(final, read)
    choice: Json = {"finish_reason": reason, "index": task.index, "message": message}
    if final.probs:
        choice["logprobs"] = {"content": logprobs(final.probs, reply.vocabulary)}
    verbose = {"__verbose": native_final(reply, task, final)} if task.params.verbose else {}
    return {
        "choices": [choice],
        "created": int(time.time()),
        "model": reply.model,
        "system_fingerprint": FINGERPRINT,
        "object": "chat.completion",
        "usage": usage(task, final.stats),
        "id": reply.id,
        **verbose,
        "timings": timings(final.stats),
    }


def chat_finish_reason(final: Final, message: Message) -> str:
    """A limit counts before a call: its arguments may be cut."""
    reason = finish_reason(final)
    return "tool_calls" if message.calls and reason == "stop" else reason
