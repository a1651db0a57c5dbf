"""The JSON of llama-server's native answers and of OpenAI's text completions.

Source: `server_task_result_cmpl_*` of llama.cpp's tools/server/server-task.cpp at 0c1e570, key by
key and in its order. Invariant: pure, but for `created`.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specproxy.coordinator.http.answer import Answer, Final, Partial, Result, TokenProbs
from specproxy.coordinator.http.parameters import Parameters
from specproxy.coordinator.http.replies import Json
from specproxy.coordinator.http.settings import settings_json
from specproxy.coordinator.http.text import num_complete, shown
from specproxy.core.vocabulary import Vocabulary

FINGERPRINT = "b1-specproxy"
_LOWEST = -3.4028234663852886e38  # llama-server's logarithm of 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What the JSON of one HTTP answer needs beside the results.

    Attributes:
        fingerprint: who answers.
        settings: what is shown of the parameters where another server than this one has heeded
            them; None: what this one heeds.
    """

    id: str
    model: str
    vocabulary: Vocabulary
    fingerprint: str = FINGERPRINT
    settings: Json | None = None


class Shape(Protocol):
    """Writes the results of a request's answers."""

    ends_with_done: bool

    def events(self, answer: Answer, result: Result) -> list[Json]:
        """The stream's events for one result."""
        ...

    def whole(self, answer: Answer, final: Final) -> Json:
        """The answer without a stream."""
        ...

    def joined(self, wholes: list[Json]) -> Json | list[Json]:
        """The one body for several choices."""
        ...


class NativeShape:
    """`/completion`."""

    ends_with_done = False

    def __init__(self, reply: Reply, *, chat: bool = False) -> None:
        self._reply = reply
        self._chat = chat

    def events(self, answer: Answer, result: Result) -> list[Json]:
        return [self.json(answer, result, streamed=True)]

    def whole(self, answer: Answer, final: Final) -> Json:
        return self.json(answer, final, streamed=False)

    def joined(self, wholes: list[Json]) -> Json | list[Json]:
        return wholes[0] if len(wholes) == 1 else wholes

    def json(self, answer: Answer, result: Result, *, streamed: bool) -> Json:
        """Also what `verbose` shows beside an OpenAI shape."""
        if isinstance(result, Partial):
            return self._partial(answer, result)
        final = self._final(answer, result, streamed=streamed)
        fields = answer.parameters.response_fields
        return _nested_values(fields, final) if fields else final

    def _partial(self, answer: Answer, partial: Partial) -> Json:
        result: Json = {
            "index": answer.index,
            "content": shown(partial.text),
            "tokens": [partial.token],
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": partial.num_predicted,
            "tokens_evaluated": len(answer.prompt),
        }
        if partial.timings is not None:
            result["timings"] = partial.timings.json()
        if partial.probs is not None and partial.probs.top:
            result["completion_probabilities"] = probs_json([partial.probs], self._reply.vocabulary)
        return result

    def _final(self, answer: Answer, final: Final, *, streamed: bool) -> Json:
        parameters, num_predicted = answer.parameters, final.timings.num_predicted
        vocabulary = self._reply.vocabulary
        result: Json = {
            "index": answer.index,
            "content": "" if streamed else shown(final.text),
            "tokens": list(final.tokens) if parameters.return_tokens and not streamed else [],
            "id_slot": parameters.id_slot,
            "stop": True,
            "model": self._reply.model,
            "tokens_predicted": num_predicted,
            "tokens_evaluated": len(answer.prompt),
            "generation_settings": self._settings(parameters),
            "prompt": shown(b"".join(rendered(token, vocabulary) for token in answer.prompt)),
            "has_new_line": final.has_new_line,
            "truncated": final.truncated,
            "stop_type": final.stop_type,
            "stopping_word": final.stopping_word,
            "tokens_cached": max(0, len(answer.prompt) + num_predicted - 1),
            "timings": final.timings.json(),
        }
        probs = kept_probs(final, vocabulary)
        if not streamed and probs:
            result["completion_probabilities"] = probs_json(probs, vocabulary)
        return result

    def _settings(self, parameters: Parameters) -> Json:
        if self._reply.settings is None:
            return settings_json(parameters, chat=self._chat)
        return self._reply.settings


class TextShape:
    """`/v1/completions`."""

    ends_with_done = True

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._native = NativeShape(reply)

    def events(self, answer: Answer, result: Result) -> list[Json]:
        return [self._json(answer, result, streamed=True)]

    def whole(self, answer: Answer, final: Final) -> Json:
        return self._json(answer, final, streamed=False)

    def joined(self, wholes: list[Json]) -> Json:
        return joined_choices(wholes)

    def _json(self, answer: Answer, result: Result, *, streamed: bool) -> Json:
        is_final = isinstance(result, Final)
        probs: Sequence[TokenProbs] = ()
        if isinstance(result, Partial):
            probs = [result.probs] if result.probs is not None and result.probs.top else []
        elif not streamed:
            probs = kept_probs(result, self._reply.vocabulary)
        logprobs = {"content": probs_json(probs, self._reply.vocabulary)} if probs else None
        chunk: Json = {
            "choices": [
                {
                    "text": "" if is_final and streamed else shown(result.text),
                    "index": answer.index,
                    "logprobs": logprobs,
                    "finish_reason": result.finish_reason if isinstance(result, Final) else None,
                }
            ],
            "created": int(time.time()),
            "model": self._reply.model,
            "system_fingerprint": self._reply.fingerprint,
            "object": "text_completion",
        }
        if isinstance(result, Final):
            chunk["usage"] = result.timings.usage()
        chunk["id"] = self._reply.id
        if answer.parameters.verbose:
            chunk["__verbose"] = self._native.json(answer, result, streamed=streamed)
        if result.timings is not None:
            chunk["timings"] = result.timings.json()
        return chunk


def joined_choices(wholes: list[Json]) -> Json:
    """The first answer with the choices of all; so its usage is the first one's, as there."""
    choices = [choice for whole in wholes for choice in whole["choices"]]
    return {**wholes[0], "choices": choices}


def kept_probs(final: Final, vocabulary: Vocabulary) -> Sequence[TokenProbs]:
    """Those of a whole answer: as many as the stop string has tokens are left out, as there."""
    if final.stop_type != "word":
        return final.probs
    num_left_out = len(vocabulary.tokenize(final.stopping_word))
    return final.probs[: max(0, len(final.probs) - num_left_out)]


def probs_json(probs: Iterable[TokenProbs], vocabulary: Vocabulary) -> list[Json]:
    return [
        {
            **_prob(one.token, one.text, one.logprob),
            "top_logprobs": [
                _prob(token, vocabulary.piece(token), logprob) for token, logprob in one.top
            ],
        }
        for one in probs
    ]


def rendered(token: int, vocabulary: Vocabulary) -> bytes:
    """A token's bytes, control tokens by their literals, as in `/detokenize`."""
    literal = vocabulary.special_text(token)
    return vocabulary.piece(token) if literal is None else literal.encode()


def _prob(token: int, text: bytes, logprob: float) -> Json:
    return {
        "id": token,
        "token": shown(text[: num_complete(text)]),
        "bytes": list(text),
        "logprob": logprob if math.isfinite(logprob) else _LOWEST,
    }


def _nested_values(paths: Iterable[str], value: Json) -> Json:
    """`response_fields`: `a/b` is the value of `b` in `a`; what is not there is left out."""
    result: Json = {}
    for path in paths:
        found: Any = value
        for key in path.split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            result[path] = found
    return result
