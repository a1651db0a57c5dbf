"""What the proxy can do for a request: speculate, and how; or leave it to the target alone.

Pure. Where equality cannot be promised the answer is "leave it": slower, never different.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specproxy.target.assemble import Kind, can_assemble
from specproxy.target.chat_bodies import chat_of

_MAX_SAID = 1 << 16
"""Characters of an odd message that tell conversations apart; images are longer."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How to serve one generation request.

    Attributes:
        kind: the shape of its answer.
        body: the client's request, parsed.
        streamed: the client asked for a stream.
        transcript: the conversation as a text that later turns extend.
        chat: the body as the chat route has it, for routes that the target converts to that one;
            None for prompts without a template.
    """

    kind: Kind
    body: Mapping[str, Any]
    streamed: bool
    transcript: str
    chat: Mapping[str, Any] | None = None

    @property
    def takes_slot(self) -> bool:
        """Whether the target heeds an `id_slot` in the body."""
        return takes_slot(self.kind)


def admit(kind: Kind, body: Mapping[str, Any]) -> Admission | None:
    """Whether and how to speculate for a request; None: pass it through untouched.

    Passed through: several choices or prompts (slots of their own, answers interleaved), token
    probabilities (the server invents them for accepted tokens), images and audio (the draft
    cannot see them), a choice of fields (the end may not be told), fill in the middle (the target
    alone knows its prompt), and plain requests whose answer a stream does not hold.
    """
    transcript = transcript_of(kind, body)
    if transcript is None or wants_probabilities(body) or chooses_fields(body):
        return None
    chat = chat_of(kind, body)
    if chat is not None and has_media(chat["messages"]):
        return None
    streamed = body.get("stream") is True
    if not streamed and not can_assemble(kind, dict(body)):
        return None
    return Admission(kind, body, streamed, transcript, chat)


def transcript_of(kind: Kind, body: Mapping[str, Any]) -> str | None:
    """The conversation of a request that takes one slot of the target, and leaves it open which;
    None for any other."""
    if not _is_single(body) or "id_slot" in body or kind == "infill":
        return None
    if kind not in ("completions", "native"):
        chat = chat_of(kind, body)
        return "\n".join(map(_said, chat["messages"])) or None if chat is not None else None
    prompt = single_prompt(body.get("prompt"))
    return " ".join(map(str, prompt)) if isinstance(prompt, list) else prompt


def num_choices(kind: Kind, body: Mapping[str, Any]) -> int:
    """How many choices the answer has, of all its prompts."""
    return num_choices_each(kind, body) * num_prompts(kind, body)


def num_choices_each(kind: Kind, body: Mapping[str, Any]) -> int:
    """How many choices each prompt has, as the target counts them: at least one, and 2.7 are two.
    What else it finds there it refuses."""
    if kind == "messages":  # what the target makes of them has no such field
        return 1
    asked = next((body[name] for name in ("n_cmpl", "n") if body.get(name) is not None), 1)
    if type(asked) is not int and not (type(asked) is float and math.isfinite(asked)):
        return 1
    return max(1, int(asked))


def num_prompts(kind: Kind, body: Mapping[str, Any]) -> int:
    """How many prompts it has."""
    prompt = None if kind in ("chat", "responses", "messages") else body.get("prompt")
    if isinstance(prompt, list) and not any(type(one) is int for one in prompt):
        return max(1, len(prompt))
    return 1


def single_prompt(prompt: object) -> str | list[int] | None:
    """The one text or the one list of ids that a completion route was given; else None."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt or None
    if isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt):
        return list(prompt)
    return None


def chooses_fields(body: Mapping[str, Any]) -> bool:
    """Whether its events may lack what tells how the answer goes."""
    return body.get("response_fields") not in (None, [])


def takes_slot(kind: Kind) -> bool:
    """Whether the target heeds an `id_slot`: what it makes of Anthropic messages has none."""
    return kind != "messages"


def named_slot(kind: Kind, body: Mapping[str, Any]) -> int | None:
    """The slot that the client has named, as far as the target heeds it."""
    slot = body.get("id_slot")
    return slot if takes_slot(kind) and type(slot) is int and slot >= 0 else None


def with_slot(raw: bytes, slot: int) -> bytes:
    """The client's body, byte for byte, with the leased slot put in front of its first key."""
    start = raw.index(b"{") + 1
    separator = b"" if raw[start:].lstrip().startswith(b"}") else b","
    return raw[:start] + b'"id_slot":%d' % slot + separator + raw[start:]


def _said(message: object) -> str:
    """A message as a line of the transcript, with as little framing as may be."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return f"{message.get('role')}: {message['content']}"
    return json.dumps(_cut(message))[:_MAX_SAID]


def _cut(value: Any, *, depth: int = 8) -> Any:
    """With its texts cut, so far down: of an image of megabytes this much is said."""
    if isinstance(value, str):
        return value[:_MAX_SAID]
    if isinstance(value, dict) and depth:
        return {key: _cut(inner, depth=depth - 1) for key, inner in value.items()}
    if isinstance(value, list) and depth:
        return [_cut(inner, depth=depth - 1) for inner in value]
    return value


def _is_single(body: Mapping[str, Any]) -> bool:
    return all(body.get(key) in (None, 1) for key in ("n", "n_cmpl", "best_of"))


def wants_probabilities(body: Mapping[str, Any]) -> bool:
    """Whether it asks for probabilities of tokens."""
    return any(body.get(key) not in (None, 0, False) for key in ("n_probs", "logprobs"))


def has_media(messages: list[Any]) -> bool:
    """Whether some message is more than text."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else []
        if any(not isinstance(part, dict) or part.get("type") != "text" for part in parts):
            return True
    return False
