"""Several prompts in one request: one pass of the target says the next token of each.

Source: `handle_completions_impl` of llama.cpp's tools/server/server-context.cpp: all prompts of an
array are posted to the queue at once, so they share a batch as far as slots are free. An `id_slot`
would put all of them into the same slot; without it each takes the free slot that holds most of it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specproxy.errors import TargetError
from specproxy.target.client import TargetClient

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What the target says after one prompt.

    Attributes:
        tokens: in order; an end-of-generation token is the last one.
        ended: it is one.
        truncated: the context was full.
        num_read: rows that the prompt took; the rest of it was cached.
        settings: the parameters as the target understood them.
    """

    tokens: tuple[int, ...]
    ended: bool
    truncated: bool
    num_read: int
    num_cached: int
    settings: Json


@dataclass(frozen=True, slots=True)
class Round:
    """One request's answers, in the order of its prompts, and how long it took."""

    said: tuple[Said, ...]
    duration_s: float

    @property
    def num_rows(self) -> int:
        return sum(one.num_read for one in self.said)


async def ask(
    client: TargetClient,
    prompts: Sequence[Sequence[int]],
    sampling: Mapping[str, Any],
    *,
    num_tokens: int = 1,
) -> Round:
    """Have the target say what follows each of `prompts`.

    Args:
        sampling: parameters of llama-server's `/completion`, as the client gave them.
        num_tokens: after each prompt; -1: as many as the server gives.

    Raises:
        TargetError: it did not.
    """
    body: Json = {
        **sampling,
        "prompt": [list(prompt) for prompt in prompts],
        "n_predict": num_tokens,
        "cache_prompt": True,
        "return_tokens": True,
    }
    began_s = time.monotonic()
    reply = await client.json("POST", "/completion", body)
    duration_s = time.monotonic() - began_s
    replies = reply if isinstance(reply, list) else [reply]
    try:
        said = tuple(map(_read, sorted(replies, key=lambda one: one.get("index", 0))))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_answer(client) from error
    if len(said) < len(prompts) or not all(one.tokens for one in said):
        raise _no_answer(client)
    return Round(said, duration_s)


def _read(reply: Json) -> Said:
    timings = reply["timings"]
    return Said(
        tokens=tuple(int(token) for token in reply["tokens"]),
        ended=reply["stop_type"] == "eos",
        truncated=bool(reply.get("truncated")),
        num_read=int(timings["prompt_n"]),
        num_cached=int(timings.get("cache_n", 0)),
        settings=dict(reply.get("generation_settings", {})),
    )


def _no_answer(client: TargetClient) -> TargetError:
    return TargetError(
        f"The target {client.name} does not answer several prompts as llama-server does.",
        remedy="Fan-out needs a llama-server of 2025 or later; set fanout.mode to off.",
    )
