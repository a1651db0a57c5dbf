"""What one event of a generation stream adds: read-only views for the follower.

Invariant: never raises on a JSON object, whatever is in it; what it does not understand it calls
opaque.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["chat", "completions", "native", "infill", "responses", "messages"]
"""The shapes of generation: OpenAI chat, completions and responses, llama-server's own, fill in
the middle (streamed as its own), Anthropic messages."""

Json = dict[str, Any]

_KINDS: dict[str, Kind] = {
    "/v1/chat/completions": "chat",
    "/chat/completions": "chat",
    "/v1/completions": "completions",
    "/completion": "native",
    "/completions": "native",
    "/infill": "infill",
    "/v1/responses": "responses",
    "/responses": "responses",
    "/v1/messages": "messages",
}
GENERATION_PATHS = tuple(_KINDS)
ENDS_WITH_DONE: frozenset[Kind] = frozenset({"chat", "completions"})
"""Kinds whose streams end with `[DONE]`."""
_TEXT_KEYS = ("reasoning_content", "content")  # in the order in which the target sends them
_PLAIN_DELTA_KEYS = frozenset({"role", *_TEXT_KEYS})
_RESPONSES_TEXTS = frozenset(
    {
        "response.reasoning_text.delta",
        "response.output_text.delta",
        "response.function_call_arguments.delta",
    }
)
_RESPONSES_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_MESSAGES_TEXTS = {
    "thinking_delta": "thinking",
    "text_delta": "text",
    "input_json_delta": "partial_json",
}


@dataclass(frozen=True, slots=True)
class Delta:
    """What an event added to the answer.

    Attributes:
        text: reasoning, content and tool calls, in the order of the stream. What the target
            wrote around a call's name is not on the stream; it is put as JSON is usual.
        tokens: ids, where the event has them: one per event, also for text that the target
            still holds back; None where it has none. A piece of an incomplete UTF-8
            character has no event at all, so ids can be missing.
        index: which of several choices this is.
        finished: the target says that its generation is over.
        timings: the target's own counts, as it sent them.
        opaque: something else than text was added (tool calls, another choice, an error).
    """

    text: str = ""
    tokens: list[int] | None = None
    index: int = 0
    finished: bool = False
    timings: Json | None = None
    opaque: bool = False


def kind_of(path: str) -> Kind | None:
    """The kind of generation that a POST to `path` asks for; None: no generation."""
    return _KINDS.get(path)


def deltas(kind: Kind, event: Json) -> Delta:
    """What `event` of a stream of this kind adds."""
    if "error" in event:
        return Delta(opaque=True, finished=True)
    if kind == "messages":
        return _messages_delta(event)
    if kind == "responses":
        return _responses_delta(event)
    if kind in ("chat", "completions"):
        return _openai_delta(kind, event)
    return _native_delta(event)


def _native_delta(event: Json) -> Delta:
    progress = "prompt_progress" in event  # comes with a token id that means nothing
    return Delta(
        text=_text(event.get("content")),
        tokens=None if progress else _token_ids(event),
        index=_index(event),
        finished=event.get("stop") is True,
        timings=_object(event.get("timings")),
        opaque=event.get("index", 0) != 0,
    )


def _openai_delta(kind: Kind, event: Json) -> Delta:
    timings = _object(event.get("timings"))
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Delta(timings=timings, opaque=choices != [])
    choice: Json = choices[0]
    opaque = len(choices) > 1 or choice.get("index", 0) != 0
    if kind == "chat":
        delta = _object(choice.get("delta")) or {}
        text = "".join(_text(delta.get(key)) for key in _TEXT_KEYS) + _calls(delta)
        opaque = opaque or bool(delta.keys() - _PLAIN_DELTA_KEYS)
    else:
        text = _text(choice.get("text"))
    return Delta(
        text=text,
        tokens=_token_ids(_object(event.get("__verbose")) or {}),
        index=_index(choice),
        finished=choice.get("finish_reason") is not None,
        timings=timings,
        opaque=opaque,
    )


def _calls(delta: Json) -> str:
    """The text of a delta's tool calls, as the model probably wrote it."""
    calls = delta.get("tool_calls")
    text = ""
    for call in calls if isinstance(calls, list) else ():
        function = _object((_object(call) or {}).get("function")) or {}
        text += _called(function.get("name")) + _text(function.get("arguments"))
    return text


def _called(name: object) -> str:
    return f'{{"name": {json.dumps(name)}, "arguments": ' if isinstance(name, str) and name else ""


def _responses_delta(event: Json) -> Delta:
    kind = event.get("type")
    if kind == "response.output_item.added":
        text = _called((_object(event.get("item")) or {}).get("name"))
    else:
        text = _text(event.get("delta")) if kind in _RESPONSES_TEXTS else ""
    return Delta(
        text=text,
        finished=kind in _RESPONSES_ENDS,
        timings=_object(event.get("timings")),
        opaque=not text,
    )


def _messages_delta(event: Json) -> Delta:
    kind = event.get("type")
    text = ""
    if kind == "content_block_start":
        text = _called((_object(event.get("content_block")) or {}).get("name"))
    elif kind == "content_block_delta":
        delta = _object(event.get("delta")) or {}
        text = _text(delta.get(_MESSAGES_TEXTS.get(str(delta.get("type")), "")))
    return Delta(
        text=text,
        finished=kind == "message_stop",
        timings=_object(event.get("timings")),
        opaque=not text,
    )


def _index(choice: Json) -> int:
    index = choice.get("index", 0)
    return index if isinstance(index, int) else 0


def _token_ids(event: Json) -> list[int] | None:
    tokens = event.get("tokens")
    return tokens if isinstance(tokens, list) and tokens else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Json | None:
    return value if isinstance(value, dict) else None
