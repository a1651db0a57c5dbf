"""The n-gram pool's `n_match`, `n_min` and `n_max`, found by seeding.

Seeded with a long run behind a key the pool proposes as much as it may at a time (`n_max`); with
a short one, it proposes that if it is enough (`n_min`).
"""

import random

from specproxy.probe.report import PoolFlags
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.probe import PoolProbe

LONG = 56
SHORT_RUNS = (1, 2, 4, 8, 16)


async def find_pool_flags(
    client: TargetClient, facts: TargetFacts, rng: random.Random
) -> PoolFlags:
    """Probe the pool; takes about 80 passes where there is one.

    Raises:
        TargetError: the target failed meanwhile.
    """
    probe = PoolProbe(client, num_vocab=facts.num_vocab, seed_slot=facts.seed_slot, rng=rng)
    n_match = await probe.n_match()
    if n_match is None:
        return PoolFlags(None)
    n_max = await probe.num_proposed(n_match, LONG)
    n_min = None
    for num_beyond in SHORT_RUNS:
        if await probe.proposes(n_match, num_beyond):
            n_min = num_beyond
            break
    return PoolFlags(n_match, n_min, n_max, n_max >= LONG)
