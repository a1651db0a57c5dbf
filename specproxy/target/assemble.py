"""One answer from a stream: what the target would have said without streaming.

A client that did not ask for a stream still profits from one, because the proxy can follow it.
So its request goes to the target as a stream and the events become the one answer again.

Invariant: `Assembler.result` is the target's own non-streaming answer (keys, order and values
as of llama.cpp's tools/server/server-task.cpp at 0c1e570), or it raises. The target drops text
from a stream in places where the plain answer has it: text held back as the possible start of
a stop string, or an incomplete character, when the generation ends there. The numbers in the
stream tell; then `NotAssembled` is raised and the request has to be asked again as it came.
"""

import json
from typing import Any

from specproxy.errors import TargetBroken, TargetError
from specproxy.target.deltas import Delta, Json, Kind, deltas, kind_of
from specproxy.target.streamed import can_assemble, streamed_body

__all__ = [
    "Assembler",
    "Delta",
    "Json",
    "Kind",
    "NotAssembled",
    "TargetErrorReply",
    "can_assemble",
    "deltas",
    "event_json",
    "kind_of",
    "streamed_body",
]

_DONE = "[DONE]"
_KNOWN_DELTA = frozenset({"role", "content", "reasoning_content", "tool_calls"})
_PARSER_GAVE_UP = "Invalid diff"  # on the stream only, not on the answer


class TargetErrorReply(TargetError):
    """The target answered with an error inside its stream.

    Attributes:
        status: the HTTP status of the answer without a stream.
        body: its body.
    """

    def __init__(self, error: Json) -> None:
        super().__init__(f"The target answered with an error: {error.get('message', error)}")
        code = error.get("code")
        self.status = code if isinstance(code, int) and 400 <= code <= 599 else 500
        self.body: Json = {"error": error}


class NotAssembled(TargetError):
    """The stream does not hold all of the plain answer: ask again without a stream."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The answer cannot be assembled from its stream: {why}.",
            remedy="Send the request again as the client sent it.",
        )


def event_json(data: str) -> Json | None:
    """The object in an event's data; None for the closing `[DONE]`.

    Raises:
        TargetBroken: it is no JSON object.
    """
    if data == _DONE:
        return None
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise TargetBroken(
            f"The target sent an event that is no JSON object, of {len(data)} characters."
        )
    return event


class Assembler:
    """Collects the events of one stream that was asked for with `streamed_body`."""

    def __init__(self, kind: Kind, body: Json) -> None:
        self._kind = kind
        self._return_tokens = body.get("return_tokens") is True
        self._parts: dict[str, list[str]] = {"content": [], "reasoning_content": []}
        self._tool_calls: dict[int, Json] = {}
        self._tokens: list[int] = []
        self._num_seen = 0  # tokens at the last event of the generation
        self._num_told = 0  # tokens at the last event that brought something
        self._last: Json | None = None  # the event that said why the generation ended
        self._verbose: Json = {}  # llama-server's own final result, beside the OpenAI shape
        self._usage: Json | None = None
        self._timings: Json | None = None

    def __repr__(self) -> str:
        return f"<Assembler {self._kind} tokens={self._num_seen} complete={self.complete}>"

    @property
    def complete(self) -> bool:
        """Whether all has come that the answer consists of."""
        return self._last is not None and (self._kind == "native" or self._usage is not None)

    def add(self, event: Json) -> None:
        """Take the next event.

        Raises:
            TargetErrorReply: the event is an error.
            NotAssembled: the target cannot stream this answer.
            TargetBroken: the event is not one of llama-server.
        """
        if "error" in event:
            error = event["error"] if isinstance(event["error"], dict) else {"message": "?"}
            if str(error.get("message", "")).startswith(_PARSER_GAVE_UP):
                raise NotAssembled(str(error["message"]).partition("\n")[0])
            raise TargetErrorReply(error)
        try:
            if self._kind == "native":
                self._add_native(event)
            else:
                self._add_openai(event)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise TargetBroken(
                f"The target sent an event that is not llama-server's ({type(error).__name__}).",
                remedy="Check that target.url points at a llama-server.",
            ) from error

    def result(self) -> Json:
        """The plain answer.

        Raises:
            TargetBroken: the stream ended early.
            NotAssembled: the stream lacks something of the plain answer.
        """
        if self._last is None or not self.complete:
            raise TargetBroken(
                f"The target's stream ended after {self._num_seen} tokens, before the answer"
                " was complete.",
                remedy="Look at the target's log.",
            )
        if self._verbose.get("generation_settings", {}).get("reasoning_in_content"):
            raise NotAssembled("the target repeats the reasoning in the content of streams")
        self._check_nothing_dropped(self._last)
        if self._kind == "native":
            return self._native_result(self._last)
        if self._kind == "completions":
            return self._completions_result(self._last)
        return self._chat_result(self._last)

    def _add_native(self, event: Json) -> None:
        if event["stop"]:
            self._last = self._verbose = event
            return
        if "prompt_progress" not in event:
            self._tokens += event["tokens"]
            self._count(event["tokens_predicted"], event["content"])
            self._parts["content"].append(event["content"])

    def _add_openai(self, event: Json) -> None:
        self._usage = event.get("usage") or self._usage
        self._timings = event.get("timings") or self._timings
        verbose: Json = event.get("__verbose") or {}
        if "stop_type" in verbose:  # on the first event that the final result gives rise to
            self._verbose = verbose
        if not event["choices"]:
            return
        choice: Json = event["choices"][0]
        if self._kind == "completions":
            added = choice["text"]
            self._parts["content"].append(added)
        else:
            added = self._add_chat_delta(choice["delta"])
        if choice["finish_reason"] is not None:
            self._last = event
        elif self._kind == "completions" or added:
            num_tokens = (event.get("timings") or {}).get("predicted_n", self._num_seen + 1)
            self._count(num_tokens, added)

    def _count(self, num_tokens: int, added: object) -> None:
        self._num_seen = num_tokens
        if added:
            self._num_told = num_tokens

    def _add_chat_delta(self, delta: Json) -> bool:
        for key in delta.keys() - _KNOWN_DELTA:
            if delta[key] is not None:
                raise NotAssembled(f"its deltas have {key!r}, and nobody knows how that adds up")
        for key, parts in self._parts.items():
            parts.append(delta.get(key) or "")
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            known = self._tool_calls.setdefault(
                call["index"], {"name": "", "arguments": [], "id": ""}
            )
            # A name that grew is sent whole again, arguments are sent as what was added.
            known["name"] = function.get("name") or known["name"]
            known["id"] = call.get("id") or known["id"]
            known["arguments"].append(function.get("arguments") or "")
        return any(value for key, value in delta.items() if key != "role")

    def _check_nothing_dropped(self, last: Json) -> None:
        """Compare the tokens of the stream with those of the answer.

        The last text sent holds all text up to its token. After a stop string nothing is
        missing; an end-of-generation token has no text of its own but lets out what was held,
        unless that is an incomplete character; at a limit all text is there only if the last
        token brought some.
        """
        source: Json = last if self._kind == "native" else self._usage or {}
        num_tokens = source.get(
            "tokens_predicted" if self._kind == "native" else "completion_tokens", 0
        )
        finish_reason = (last.get("choices") or [{}])[0].get("finish_reason")
        stop_type = self._verbose.get("stop_type", "limit" if finish_reason == "length" else "eos")
        if stop_type == "limit":
            dropped = self._num_told != num_tokens
        elif stop_type == "word":
            dropped = False
        elif self._kind == "chat":  # an event without effect on the message is not sent
            dropped = self._num_told < num_tokens - 1 and not self._is_closed()
        else:
            dropped = self._num_seen != num_tokens
        if dropped:
            raise NotAssembled(f"text may be missing before its end ({stop_type})")
        if self._kind == "native" and self._return_tokens and len(self._tokens) != num_tokens:
            raise NotAssembled("ids of incomplete characters are missing")
        if self._kind == "chat" and num_tokens > 1 and not self._num_told:
            raise NotAssembled("the target's parser took the whole text for markup")

    def _is_closed(self) -> bool:
        """Whether an incomplete character cannot follow: a call or a JSON text has its end."""
        if self._tool_calls:
            return True
        settings = self._verbose.get("generation_settings", {})
        if not settings.get("grammar") or settings.get("grammar_lazy"):
            return False
        try:
            json.loads("".join(self._parts["content"]))
        except ValueError:
            return False
        return True

    def _native_result(self, last: Json) -> Json:
        result = {
            **last,
            "content": "".join(self._parts["content"]),
            "tokens": self._tokens if self._return_tokens else [],
        }
        if isinstance(settings := last.get("generation_settings"), dict):
            result["generation_settings"] = settings | {"stream": False}
        return result

    def _completions_result(self, last: Json) -> Json:
        result = {key: value for key, value in last.items() if key != "__verbose"}
        result["choices"] = [{**last["choices"][0], "text": "".join(self._parts["content"])}]
        return result

    def _chat_result(self, last: Json) -> Json:
        message: Json = {"role": "assistant", "content": "".join(self._parts["content"])}
        if reasoning := "".join(self._parts["reasoning_content"]):
            message["reasoning_content"] = reasoning
        if self._tool_calls:
            message["tool_calls"] = [
                _tool_call(call) for _, call in sorted(self._tool_calls.items())
            ]
        choice: Json = last["choices"][0]
        result: Json = {
            "choices": [
                {
                    "finish_reason": choice["finish_reason"],
                    "index": choice.get("index", 0),
                    "message": message,
                }
            ],
            "created": last.get("created"),
            "model": last.get("model"),
            "system_fingerprint": last.get("system_fingerprint"),
            "object": "chat.completion",
            "usage": self._usage,
            "id": last.get("id"),
            "timings": self._timings,
        }
        return {key: value for key, value in result.items() if value is not None}


def _tool_call(call: dict[str, Any]) -> Json:
    function = {"name": call["name"], "arguments": "".join(call["arguments"])}
    named = {"id": call["id"]} if call["id"] else {}
    return {"type": "function", "function": function, **named}
