"""Does this target's n-gram pool take seeds, and with which key length? Found by seeding.

A trial asks for three tokens after a random prompt, so that there is one pass that can verify one
proposed token: was it accepted? Then it seeds the prompt's end and the first token with
something else behind them than was said (what the target says if nothing was accepted, nonsense
if it was), and asks again. The answer differs only if the pool knew that key. A target that
also drafts by itself changes nothing in that. Source: llama.cpp `common/speculative.cpp`.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.errors import TargetError
from specproxy.target.client import JSON_HEADERS, TargetClient
from specproxy.target.seeding import plant
from specproxy.target.sse import SSEParser

MAX_KEY = 26
"""The prompt's length, and the longest key that is found. With what is asked for it stays below
the 32 tokens after which a server learns by itself."""
NUM_BEYOND = 24
"""Seeded tokens behind the key: about a seed of the proxy's own. A pool that wants longer chains
(`n_min`) would seldom take those either."""
NUM_ASKED = 3
"""The first comes with the prompt, the second from a pass that may verify one proposed token."""
NUM_TRIES = 12


@dataclass(frozen=True, slots=True)
class _Said:
    """What the target said, and what of it had been proposed. A target that does not know
    `return_tokens` says nothing."""

    tokens: list[int]
    num_proposed: int
    num_accepted: int


class PoolProbe:
    """Trials of one target's pool, in its seed slot.

    Args:
        num_vocab: size of its vocabulary; prompts are random ids, so that no pool knows them.

    Attributes:
        drafts_itself: it has proposed what nobody had seeded.
    """

    def __init__(
        self, client: TargetClient, *, num_vocab: int, seed_slot: int, rng: random.Random
    ) -> None:
        self._client = client
        self._num_vocab = num_vocab
        self._seed_slot = seed_slot
        self._rng = rng
        self.drafts_itself = False

    async def n_match(self, expected: int | None = None) -> int | None:
        """Key length of the pool; None if it takes no seeds. Takes about 45 plain passes, about
        8 where there is no pool.

        Args:
            expected: tried first; if it is the one, about 15 passes do.

        Raises:
            TargetError: the target failed meanwhile.
        """
        low, high = 1, MAX_KEY
        if expected is not None and await self.proposes(min(expected, high), NUM_BEYOND):
            high = min(expected, high)
            if high > 1 and not await self.proposes(high - 1, NUM_BEYOND):
                low = high
        elif not await self.proposes(high, NUM_BEYOND):
            return None
        while low < high:
            middle = (low + high) // 2
            if await self.proposes(middle, NUM_BEYOND):
                high = middle
            else:
                low = middle + 1
        return low

    async def proposes(self, num_key: int, num_beyond: int) -> bool:
        """Whether the pool proposes anything once `num_key` tokens and `num_beyond` more have
        been seeded.

        Raises:
            TargetError: the target failed meanwhile.
        """
        for _ in range(NUM_TRIES):
            prompt = self._random(MAX_KEY)
            alone = await self._ask(prompt)
            self.drafts_itself |= alone.num_proposed > 0
            if len(alone.tokens) != NUM_ASKED:
                continue
            first, *rest = alone.tokens
            if first in prompt + rest:
                continue  # a key of one token would lead elsewhere
            nonsense = self._random(num_beyond, but=alone.tokens)
            beyond = nonsense if alone.num_accepted else [*rest, *nonsense][:num_beyond]
            await self._plant([*prompt, first, *beyond][MAX_KEY + 1 - num_key :])
            seeded = await self._ask(prompt)
            if seeded.tokens == alone.tokens:  # else a near-tie: it tells nothing
                return seeded.num_accepted != alone.num_accepted
        return False

    async def num_proposed(self, num_key: int, num_beyond: int) -> int:
        """How many of `num_beyond` seeded tokens are proposed in one pass; 0: none.

        Raises:
            TargetError: the target failed meanwhile.
        """
        prompt = self._random(MAX_KEY)
        alone = await self._ask(prompt)
        await self._plant([*prompt, *alone.tokens[:1]][-num_key:] + self._random(num_beyond))
        return await self._first_proposal(prompt, num_beyond + NUM_ASKED)

    def _random(self, num_tokens: int, but: Sequence[int] = ()) -> list[int]:
        """So many ids, no two alike, none of them in `but`."""
        ids = range(self._num_vocab // 8, self._num_vocab)
        drawn = self._rng.sample(ids, num_tokens + len(but))
        return [token for token in drawn if token not in but][:num_tokens]

    async def _plant(self, tokens: list[int]) -> None:
        await plant(self._client, tokens, seed_slot=self._seed_slot)

    async def _ask(self, prompt: list[int]) -> _Said:
        """The target's greedy continuation of `prompt`."""
        reply = await self._client.json("POST", "/completion", self._body(prompt, NUM_ASKED))
        timings = reply.get("timings") or {}
        return _Said(
            reply.get("tokens") or [],
            int(timings.get("draft_n", 0)),
            int(timings.get("draft_n_accepted", 0)),
        )

    async def _first_proposal(self, prompt: list[int], num_tokens: int) -> int:
        """Length of what is proposed first in the answer to `prompt`."""
        body = self._body(prompt, num_tokens) | {"stream": True, "timings_per_token": True}
        parser = SSEParser()
        data = json.dumps(body).encode()
        async with self._client.request(
            "POST", "/completion", headers=JSON_HEADERS, data=data
        ) as response:
            if response.status != 200:
                raise TargetError(
                    f"The target {self._client.name} answered a probe with {response.status}."
                )
            async for chunk in self._client.chunks(response):
                for event in parser.feed(chunk):
                    reply = json.loads(event.data)
                    if num_proposed := int((reply.get("timings") or {}).get("draft_n", 0)):
                        return num_proposed
        return 0

    def _body(self, prompt: list[int], num_tokens: int) -> dict[str, object]:
        return {
            "prompt": prompt,
            "n_predict": num_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "id_slot": self._seed_slot,
            "cache_prompt": False,
            "return_tokens": True,
        }
