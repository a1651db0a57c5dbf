"""Requests of other APIs as chat requests, as the scripted target reads them."""

from typing import Any

from specproxy.target.chat_bodies import chat_of
from specproxy.testing.chat import BadRequest

_KEPT = ("temperature", "top_p", "top_k", "stream", "seed")
_KEPT_OF_RESPONSES = ("id_slot", "n", "n_cmpl")
"""llama-server copies these from responses, of which it keeps all, and not from messages."""


def chat_body(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The chat request that a messages or responses request stands for.

    Raises:
        BadRequest: it has no messages.
    """
    chat = chat_of("messages" if kind == "messages" else "responses", body)
    if chat is None:
        raise BadRequest("'messages' is required" if kind == "messages" else "'input' is required")
    names = _KEPT if kind == "messages" else _KEPT + _KEPT_OF_RESPONSES
    kept = {key: body[key] for key in names if key in body}
    limit = body.get("max_tokens" if kind == "messages" else "max_output_tokens")
    stop = body.get("stop_sequences") if kind == "messages" else None
    return {**chat, **kept, "max_tokens": limit, "stop": stop}
