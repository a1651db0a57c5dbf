"""What the proxy can do for a request: speculate, and how; or leave it to the target alone.

Pure. Where equality cannot be promised the answer is "leave it": slower, never different.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specproxy.target.assemble import Kind, can_assemble


@dataclass(frozen=True, slots=True)
class Admission:
    """How to serve one generation request.

    Attributes:
        kind: the shape of its answer.
        body: the client's request, parsed.
        streamed: the client asked for a stream.
        transcript: the conversation as a text that later turns extend.
    """

    kind: Kind
    body: Mapping[str, Any]
    streamed: bool
    transcript: str


def admit(kind: Kind, body: Mapping[str, Any]) -> Admission | None:
    """Whether and how to speculate for a request; None: pass it through untouched.

    Passed through: several choices or prompts (slots of their own, answers interleaved), token
    probabilities (the server invents them for accepted tokens), images and audio (the draft
    cannot see them), and plain requests whose answer a stream does not hold.
    """
    if not _is_single(body) or _wants_probabilities(body) or "id_slot" in body:
        return None
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or _has_media(messages):
            return None
        transcript = "\n".join(map(_said, messages))
    else:
        prompt = single_prompt(body.get("prompt"))
        if prompt is None:
            return None
        transcript = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
    streamed = body.get("stream") is True
    if not streamed and not can_assemble(kind, dict(body)):
        return None
    return Admission(kind, body, streamed, transcript)


def single_prompt(prompt: object) -> str | list[int] | None:
    """The one text or the one list of ids that a completion route was given; else None."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt or None
    if isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt):
        return list(prompt)
    return None


def with_slot(raw: bytes, slot: int) -> bytes:
    """The client's body, byte for byte, with the leased slot put in front of its first key."""
    start = raw.index(b"{") + 1
    separator = b"" if raw[start:].lstrip().startswith(b"}") else b","
    return raw[:start] + b'"id_slot":%d' % slot + separator + raw[start:]


def _said(message: object) -> str:
    """A message as a line of the transcript, with as little framing as may be."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return f"{message.get('role')}: {message['content']}"
    return json.dumps(message)


def _is_single(body: Mapping[str, Any]) -> bool:
    return all(body.get(key) in (None, 1) for key in ("n", "n_cmpl", "best_of"))


def _wants_probabilities(body: Mapping[str, Any]) -> bool:
    return any(body.get(key) not in (None, 0, False) for key in ("n_probs", "logprobs"))


def _has_media(messages: list[Any]) -> bool:
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else []
        if any(not isinstance(part, dict) or part.get("type") != "text" for part in parts):
            return True
    return False
