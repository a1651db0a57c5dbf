"""Does this target's n-gram pool take seeds, and with which key length? Found by seeding.

The target first continues a random prompt by itself; that continuation is then seeded without
its context, and asked for again. A pool with key length n proposes nothing until n of the
seeded tokens have been said, and then the next ones: the token count at the first proposal is n.

A stream has no event for the pieces of a cut character. One among those tokens makes n look
longer than it is; then another prompt is tried.
"""

import itertools
import json
import random
import statistics
import time
from dataclasses import dataclass

from specproxy.errors import TargetError
from specproxy.target.client import JSON_HEADERS, TargetClient
from specproxy.target.seeding import plant
from specproxy.target.sse import SSEParser

NUM_PROMPT = 4
NUM_CONTINUED = 27
"""Prompt and continuation stay below the 32 tokens after which a server learns by itself."""
NUM_TRIES = 8


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What the probe found.

    Attributes:
        n_match: key length of the pool; None when it took no seed.
        num_accepted: seeded tokens that the target accepted in the probe.
        pass_s: time of one plain pass, median, seconds.
    """

    n_match: int | None
    num_accepted: int
    pass_s: float

    @property
    def takes_seeds(self) -> bool:
        return self.n_match is not None


async def probe_pool(
    client: TargetClient, *, num_vocab: int, seed_slot: int, rng: random.Random
) -> PoolFacts:
    """Probe the pool in its seed slot; takes about 50 plain passes.

    Raises:
        TargetError: the target failed meanwhile.
    """
    unsure: list[PoolFacts] = []
    for _ in range(NUM_TRIES):
        facts, is_sure = await _probe_once(client, num_vocab, seed_slot, rng)
        if is_sure:
            return facts
        unsure.append(facts)
    return min(unsure, key=lambda facts: facts.n_match or NUM_CONTINUED)


async def _probe_once(
    client: TargetClient, num_vocab: int, seed_slot: int, rng: random.Random
) -> tuple[PoolFacts, bool]:
    """One try, and whether every token that counts had its event."""
    prompt = [rng.randrange(num_vocab // 8, num_vocab) for _ in range(NUM_PROMPT)]
    alone = await _continue(client, prompt, seed_slot)
    await plant(client, alone.tokens, seed_slot=seed_slot)
    seeded = await _continue(client, prompt, seed_slot)
    facts = PoolFacts(seeded.num_before_proposal, seeded.num_accepted, alone.pass_s)
    return facts, not seeded.has_gap


@dataclass(frozen=True, slots=True)
class _Continuation:
    tokens: list[int]
    num_before_proposal: int | None
    num_accepted: int
    pass_s: float
    has_gap: bool


async def _continue(client: TargetClient, prompt: list[int], slot: int) -> _Continuation:
    """The target's greedy continuation of `prompt`, token by token."""
    body = {
        "prompt": prompt,
        "n_predict": NUM_CONTINUED,
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
    before: int | None = None
    accepted = 0
    has_gap = False
    times: list[float] = []
    async with client.request(
        "POST", "/completion", headers=JSON_HEADERS, data=json.dumps(body).encode()
    ) as response:
        if response.status != 200:
            raise TargetError(f"The target {client.name} answered a probe with {response.status}.")
        async for chunk in client.chunks(response):
            for event in parser.feed(chunk):
                reply = json.loads(event.data)
                timings = reply.get("timings") or {}
                accepted = max(accepted, int(timings.get("draft_n_accepted", 0)))
                if before is None and not reply.get("stop"):
                    has_gap = has_gap or reply.get("tokens_predicted") != len(tokens) + 1
                if before is None and timings.get("draft_n", 0) > 0:
                    before = int(timings["predicted_n"]) - 1
                if not reply.get("stop"):
                    tokens += reply.get("tokens", [])
                    times.append(time.monotonic())
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return _Continuation(
        tokens, before, accepted, statistics.median(steps) if steps else 0.0, has_gap
    )
