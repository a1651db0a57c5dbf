"""The n-gram pool's `n_match`, `n_min` and `n_max`, found by seeding.

What `target.probe` does for the key length, with more text: seeded with all of a continuation the
pool proposes as much as it may at a time (`n_max`); seeded with only so much beyond a key, it
proposes that if it is enough (`n_min`).
"""

import json
import random

from specproxy.errors import TargetError
from specproxy.probe.report import PoolFlags
from specproxy.target.client import JSON_HEADERS, TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.probe import NUM_CONTINUED, NUM_PROMPT, probe_pool
from specproxy.target.seeding import plant
from specproxy.target.sse import SSEParser

LONG = 56
SHORT_RUNS = (1, 2, 4, 8, 16)
NUM_TRIES = 2


async def find_pool_flags(
    client: TargetClient, facts: TargetFacts, rng: random.Random
) -> PoolFlags:
    """Probe the pool; takes about 200 passes where there is one.

    Raises:
        TargetError: the target failed meanwhile.
    """
    n_match = None
    for _ in range(NUM_TRIES):  # a near-tie can hide the pool once
        found = await probe_pool(
            client, num_vocab=facts.num_vocab, seed_slot=facts.seed_slot, rng=rng
        )
        n_match = found.n_match
        if n_match is not None:
            break
    if n_match is None:
        return PoolFlags(None)
    n_max = await _longest(client, facts, rng)
    n_min = None
    for num_beyond in SHORT_RUNS:
        if n_match + num_beyond >= NUM_CONTINUED:
            break
        if await _proposes(client, facts, rng, n_match + num_beyond):
            n_min = num_beyond
            break
    return PoolFlags(n_match, n_min, n_max, n_max >= LONG - n_match - 2)


async def _longest(client: TargetClient, facts: TargetFacts, rng: random.Random) -> int:
    prompt = _random(facts, rng)
    tokens, _ = await _continue(client, prompt, facts.seed_slot, LONG)
    await plant(client, tokens, seed_slot=facts.seed_slot)
    _, proposals = await _continue(client, prompt, facts.seed_slot, LONG)
    return max(proposals, default=0)


async def _proposes(
    client: TargetClient, facts: TargetFacts, rng: random.Random, num_seeded: int
) -> bool:
    """Whether anything is proposed with so many tokens of a continuation in the pool."""
    for _ in range(NUM_TRIES):
        prompt = _random(facts, rng)
        tokens, _ = await _continue(client, prompt, facts.seed_slot, NUM_CONTINUED)
        await plant(client, tokens[:num_seeded], seed_slot=facts.seed_slot)
        _, proposals = await _continue(client, prompt, facts.seed_slot, NUM_CONTINUED)
        if proposals:
            return True
    return False


def _random(facts: TargetFacts, rng: random.Random) -> list[int]:
    return [rng.randrange(facts.num_vocab // 8, facts.num_vocab) for _ in range(NUM_PROMPT)]


async def _continue(
    client: TargetClient, prompt: list[int], slot: int, num_tokens: int
) -> tuple[list[int], list[int]]:
    """The greedy continuation, and the lengths of what was proposed on the way."""
    body = {
        "prompt": prompt,
        "n_predict": num_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "id_slot": slot,
        "cache_prompt": False,
        "stream": True,
        "return_tokens": True,
        "timings_per_token": True,
    }
    parser = SSEParser()
    tokens: list[int] = []
    proposals: list[int] = []
    num_proposed = 0
    data = json.dumps(body).encode()
    async with client.request("POST", "/completion", headers=JSON_HEADERS, data=data) as response:
        if response.status != 200:
            raise TargetError(f"The target {client.name} answered a probe with {response.status}.")
        async for chunk in client.chunks(response):
            for event in parser.feed(chunk):
                reply = json.loads(event.data)
                now = int((reply.get("timings") or {}).get("draft_n", 0))
                if now > num_proposed:
                    proposals.append(now - num_proposed)
                    num_proposed = now
                if not reply.get("stop"):
                    tokens += reply.get("tokens", [])
    return tokens, proposals
