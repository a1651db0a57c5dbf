"""The probe finds the key length a real pool was started with, and sees where there is none."""

import random

import pytest

from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.target.probe import PoolFacts, probe_pool

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

OTHER_N_MATCH = 9


async def probed(pool: DemoPool) -> PoolFacts:
    """What the probe finds; asked twice at most, as the route does."""
    generator = random.Random(11)
    async with TargetClient(TargetSettings(url=pool.url)) as client:
        facts = await read_facts(client)
        assert facts.num_slots - 1 == pool.seed_slot
        for _ in range(2):
            found = await probe_pool(
                client, num_vocab=facts.num_vocab, seed_slot=pool.seed_slot, rng=generator
            )
            if found.takes_seeds:
                break
    return found


async def test_it_finds_the_key_length(demo_pool: DemoPool) -> None:
    found = await probed(demo_pool)
    assert found.n_match == demo_pool.options.n_match
    assert found.num_accepted > 0
    assert found.pass_s > 0


async def test_it_finds_another_one(binaries: LlamaBinaries, demo_models: DemoModels) -> None:
    options = PoolOptions(rtt_ms=0.0, n_match=OTHER_N_MATCH)
    async with DemoPool(binaries, demo_models, options) as pool:
        assert (await probed(pool)).n_match == OTHER_N_MATCH


async def test_it_finds_no_pool_in_a_plain_server(plain_pool: DemoPool) -> None:
    found = await probed(plain_pool)
    assert found.n_match is None
    assert found.num_accepted == 0
