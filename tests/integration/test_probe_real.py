"""The probe finds the key length a real pool was started with, and sees where there is none."""

import random

import pytest

from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.demo import DemoPool, Mode, PoolOptions
from specproxy.pool.models import DemoModels
from specproxy.settings import SeedingSettings, TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.ways.seeding import PoolFacts, find_pool

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

OTHER_N_MATCH = 9


async def probed(pool: DemoPool) -> PoolFacts:
    """What the probe finds."""
    async with TargetClient(TargetSettings(url=pool.url)) as client:
        facts = await read_facts(client)
        assert facts.num_slots - 1 == pool.seed_slot
        return await find_pool(client, facts, SeedingSettings(), random.Random(11))


async def test_it_finds_the_key_length(demo_pool: DemoPool) -> None:
    assert await probed(demo_pool) == PoolFacts(demo_pool.options.n_match)


@pytest.mark.parametrize("mode", ["ngram", "ngram-draft"])
async def test_it_finds_another_one(
    mode: Mode, binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    options = PoolOptions(rtt_ms=0.0, mode=mode, n_match=OTHER_N_MATCH)
    async with DemoPool(binaries, demo_models, options) as pool:
        assert await probed(pool) == PoolFacts(OTHER_N_MATCH, drafts_itself=mode == "ngram-draft")


async def test_a_server_that_only_drafts_by_itself_has_no_pool(
    binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    options = PoolOptions(rtt_ms=0.0, mode="draft")
    async with DemoPool(binaries, demo_models, options) as pool:
        assert await probed(pool) == PoolFacts(None, drafts_itself=True)


async def test_it_finds_no_pool_in_a_plain_server(plain_pool: DemoPool) -> None:
    assert await probed(plain_pool) == PoolFacts(None)
