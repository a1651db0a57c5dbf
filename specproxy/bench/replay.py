"""What the target alone says after a prompt, token by token, with the probabilities it saw."""

from collections.abc import Mapping, Sequence
from typing import Any

from specproxy.bench.equality import Candidate, Step, aligned
from specproxy.errors import TargetError
from specproxy.target.client import TargetClient

NUM_CANDIDATES = 5


async def replay(
    client: TargetClient,
    context: Sequence[int],
    num_tokens: int,
    *,
    num_candidates: int = NUM_CANDIDATES,
    fields: Mapping[str, Any] | None = None,
) -> list[Step]:
    """What a server without speculation says after `context`, with the probabilities it saw.

    Args:
        num_candidates: how many tokens each step shows.
        fields: of the request, beside or instead of those of greedy decoding.

    Raises:
        TargetError: it gives no probabilities.
    """
    reply = await _completion(client, context, num_tokens, num_candidates, fields)
    return _steps(client, reply)


async def replay_stepwise(
    client: TargetClient, context: Sequence[int], num_tokens: int
) -> list[Step]:
    """As `replay`, of a server that may speculate: it cannot in a request for one token.

    Costs a request for each token.
    """
    steps: list[Step] = []
    said = list(context)
    while len(said) - len(context) < num_tokens:
        reply = await _completion(client, said, 1, NUM_CANDIDATES)
        steps += _steps(client, reply)
        said += reply["tokens"]
        if reply.get("stop_type") != "limit" or not reply["tokens"]:
            break
    return steps


async def _completion(
    client: TargetClient,
    context: Sequence[int],
    num_tokens: int,
    num_candidates: int,
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    body = {
        "prompt": list(context),
        "n_predict": num_tokens,
        "temperature": 0,
        "n_probs": num_candidates,
        "return_tokens": True,
        **(fields or {}),
    }
    reply: dict[str, Any] = await client.json("POST", "/completion", body)
    return reply


def _steps(client: TargetClient, reply: Mapping[str, Any]) -> list[Step]:
    try:
        shown = [_step(entry) for entry in reply["completion_probabilities"]]
        return aligned(shown, reply["tokens"])
    except (KeyError, TypeError) as error:
        raise TargetError(f"The target {client.name} gives no token probabilities.") from error


def _step(entry: Mapping[str, Any]) -> Step:
    taken = _candidate(entry)
    top = map(_candidate, entry["top_logprobs"])
    return Step(taken, tuple(other for other in top if other.token != taken.token))


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    return Candidate(int(entry["id"]), bytes(entry["bytes"]), float(entry["logprob"]))
