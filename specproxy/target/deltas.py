"""What one event of a generation stream adds: read-only views for the follower.

Invariant: never raises on a JSON object, whatever is in it; what it does not understand it calls
opaque.
"""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["chat", "completions", "native"]
"""The three shapes of generation: OpenAI chat, OpenAI completions, llama-server's own."""

Json = dict[str, Any]

_KINDS: dict[str, Kind] = {
    "/v1/chat/completions": "chat",
    "/chat/completions": "chat",
    "/v1/completions": "completions",
    "/completion": "native",
    "/completions": "native",
}
GENERATION_PATHS = tuple(_KINDS)
_TEXT_KEYS = ("reasoning_content", "content")  # in the order in which the target sends them
_PLAIN_DELTA_KEYS = frozenset({"role", *_TEXT_KEYS})


@dataclass(frozen=True, slots=True)
class Delta:
    """What an event added to the answer.

    Attributes:
        text: reasoning and content, in the order of the stream.
        tokens: ids, where the event has them: one per event, also for text that the target
            still holds back; None where it has none. A piece of an incomplete UTF-8
            character has no event at all, so ids can be missing.
        finished: the target says that the generation is over.
        timings: the target's own counts, as it sent them.
        opaque: something else than text was added (tool calls, another choice, an error).
    """

    text: str = ""
    tokens: list[int] | None = None
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
    return _native_delta(event) if kind == "native" else _openai_delta(kind, event)


def _native_delta(event: Json) -> Delta:
    progress = "prompt_progress" in event  # comes with a token id that means nothing
    return Delta(
        text=_text(event.get("content")),
        tokens=None if progress else _token_ids(event),
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
        text = "".join(_text(delta.get(key)) for key in _TEXT_KEYS)
        opaque = opaque or bool(delta.keys() - _PLAIN_DELTA_KEYS)
    else:
        text = _text(choice.get("text"))
    return Delta(
        text=text,
        tokens=_token_ids(_object(event.get("__verbose")) or {}),
        finished=choice.get("finish_reason") is not None,
        timings=timings,
        opaque=opaque,
    )


def _token_ids(event: Json) -> list[int] | None:
    tokens = event.get("tokens")
    return tokens if isinstance(tokens, list) and tokens else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Json | None:
    return value if isinstance(value, dict) else None
