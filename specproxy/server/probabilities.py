"""Token probabilities that a speculating llama-server makes up, and how to tell.

It has no probabilities of a token that it took from a proposal: such an entry claims certainty
(`logprob` 0) and has no alternatives, though some were asked for. Nobody may take that for
a measurement, so the request is refused. It cannot be asked to decode without proposals.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp

from specproxy.errors import RequestError
from specproxy.target.client import TargetClient


def check_probabilities(body: Any) -> None:
    """Refuse an answer, or an event of one, with probabilities that are made up.

    Raises:
        RequestError: it has some.
    """
    if any(_is_made_up(entry) for entry in _entries(body)):
        raise RequestError(
            "The target speculates, and llama-server has no probabilities of tokens that it"
            " accepted from a proposal.",
            remedy="Ask a llama-server without --spec-type, or a specproxy coordinator, for"
            " logprobs.",
        )


async def checked_body(client: TargetClient, upstream: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer with probabilities.

    Raises:
        RequestError: they are made up.
    """
    body = bytearray()
    async for chunk in client.chunks(upstream):
        body += chunk
    with suppress(ValueError, RecursionError):  # what is no JSON the client sees for itself
        check_probabilities(json.loads(body))
    return bytes(body)


def _entries(body: Any) -> Iterator[Any]:
    """One for each token with probabilities."""
    for part in body if isinstance(body, list) else [body]:
        if not isinstance(part, dict):
            continue
        yield from _list(part.get("completion_probabilities"))
        for choice in _list(part.get("choices")):
            if isinstance(choice, dict) and isinstance(choice.get("logprobs"), dict):
                yield from _list(choice["logprobs"].get("content"))


def _is_made_up(entry: Any) -> bool:
    return isinstance(entry, dict) and [] in (entry.get("top_logprobs"), entry.get("top_probs"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
