"""The events of one streamed chat answer: text deltas from the text so far.

Invariant: the deltas of a stream, joined, are the message of the non-streamed answer.
"""

import time

from specproxy.testing.chat import read_answer
from specproxy.testing.shapes import (
    FINGERPRINT,
    Json,
    Reply,
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
        self._text = ""
        self._reasoning = ""
        self._content = ""

    def partial(self, result: Partial) -> list[Json]:
        """The role chunk comes with the first token, if that one completes a character."""
        chunks = []
        if result.num_predicted == 1:
            chunks.append(self._chunk({"role": "assistant", "content": None}))
        self._text += text_of(result.text)
        chunks += self._deltas(partial=True)
        if chunks and result.probs:
            content = logprobs([result.probs], self._reply.vocabulary)
            chunks[-1]["choices"][0]["logprobs"] = {"content": content}
        if chunks and result.stats:
            chunks[-1]["timings"] = timings(result.stats)
        return chunks

    def final(self, result: Final) -> list[Json]:
        """What was held back, the finish chunk, and the usage chunk if asked for."""
        chunks = self._deltas(partial=False)
        chunks.append(self._chunk({}, finish_reason(result)))
        if self._task.params.include_usage:
            last = self._chunk({})
            chunks.append({**last, "choices": [], "usage": usage(self._task, result.stats)})
        chunks[-1]["timings"] = timings(result.stats)
        if self._task.params.verbose:
            chunks[0]["__verbose"] = native_final(self._reply, self._task, result)
        return chunks

    def _deltas(self, *, partial: bool) -> list[Json]:
        reasoning, content = read_answer(self._text, partial=partial)
        chunks = []
        if len(reasoning) > len(self._reasoning):
            delta = reasoning[len(self._reasoning) :]
            chunks.append(self._chunk({"reasoning_content": delta}))
        if len(content) > len(self._content):
            chunks.append(self._chunk({"content": content[len(self._content) :]}))
        self._reasoning, self._content = reasoning, content
        return chunks

    def _chunk(self, delta: Json, finish: str | None = None) -> Json:
        return {
            "choices": [{"finish_reason": finish, "index": self._task.index, "delta": delta}],
            "created": int(time.time()),
            "id": self._reply.id,
            "model": self._reply.model,
            "system_fingerprint": FINGERPRINT,
            "object": "chat.completion.chunk",
        }
