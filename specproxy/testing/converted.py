"""Requests of other APIs as chat requests, as the scripted target reads them."""

from typing import Any

from specproxy.target.chat_bodies import chat_of
from specproxy.testing.chat import BadRequest

_KEPT = ("temperature", "top_p", "top_k", "stream", "id_slot", "seed")


def chat_body(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The chat request that a messages or responses request stands for.

    Raises:
        BadRequest: it has no messages.
    """
    chat = chat_of("messages" if kind == "messages" else "responses", body)
    if chat is None:
        raise BadRequest("'messages' is required" if kind == "messages" else "'input' is required")
    kept = {key: body[key] for key in _KEPT if key in body and (key, kind) != _DROPPED}
    limit = body.get("max_tokens" if kind == "messages" else "max_output_tokens")
    stop = body.get("stop_sequences") if kind == "messages" else None
    return {**chat, **kept, "max_tokens": limit, "stop": stop}


_DROPPED = ("id_slot", "messages")  # llama-server copies what it knows, and this is not of it
