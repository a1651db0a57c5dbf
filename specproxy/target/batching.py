"""Do prompts of different lengths share a pass of this target?

They do with one KV cache for all slots (`--kv-unified`) and without a cache of slot states
(`--cache-ram 0`). Without the one, each length is a pass of its own; with the other, every prompt
first moves the states of idle slots. No route of the server tells; time does.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.target.client import TargetClient
from specproxy.target.fanout import ask

NUM_PROMPTS = 4
SHORTEST = 3
NUM_TRIES = 4
MIN_DIFFERENCE_S = 0.025
"""What the server and the proxy themselves may take for prompts more."""
MAX_RATIO = 1.8


@dataclass(frozen=True, slots=True)
class Batching:
    """Shortest times of the same number of tokens, seconds.

    Attributes:
        alone_s: in one prompt.
        together_s: in several prompts, each of another length.
    """

    alone_s: float
    together_s: float

    @property
    def shares(self) -> bool:
        """Several prompts are one pass."""
        difference_s = self.together_s - self.alone_s
        return difference_s < MIN_DIFFERENCE_S or self.together_s < MAX_RATIO * self.alone_s


async def measure_batching(
    client: TargetClient, *, num_slots: int, num_vocab: int, rng: random.Random
) -> Batching:
    """Measure; takes 8 requests.

    Raises:
        TargetError: the target failed meanwhile.
    """
    lengths = [SHORTEST + one for one in range(min(NUM_PROMPTS, num_slots))]

    def prompts(lengths: Sequence[int]) -> list[list[int]]:
        low = num_vocab // 8
        return [[rng.randrange(low, num_vocab) for _ in range(length)] for length in lengths]

    greedy = {"temperature": 0}
    alone, together = [], []
    for _ in range(NUM_TRIES):
        alone.append((await ask(client, prompts([sum(lengths)]), greedy)).duration_s)
        together.append((await ask(client, prompts(lengths), greedy)).duration_s)
    return Batching(min(alone), min(together))
