"""The probe tells a pool that takes seeds, and its key length, from any other target."""

import random
from typing import Any

import pytest

from specproxy.errors import TargetError
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.probe import PoolFacts, probe_pool
from specproxy.testing import Break, CannedAnswer, Language, ScriptedTarget, StreamFault


async def probed(target: ScriptedTarget, seed: int = 0) -> PoolFacts:
    async with TargetClient(TargetSettings(url=target.url)) as client:
        return await probe_pool(
            client,
            num_vocab=len(target.language.vocabulary),
            seed_slot=len(target.engine.slots) - 1,
            rng=random.Random(seed),
        )


@pytest.mark.parametrize("n_match", [1, 2, 4, 6, 16])
async def test_the_key_length_is_found(n_match: int) -> None:
    for seed in range(8):  # the toy language is full of cut characters
        async with ScriptedTarget(n_match=n_match) as target:
            facts = await probed(target, seed)
        assert facts.takes_seeds
        assert facts.n_match == n_match
        assert facts.num_accepted > 0


@pytest.mark.parametrize("flags", [{"has_ngram_pool": False}, {"n_min": 48}, {"n_match": 32}])
async def test_no_pool_or_one_that_wants_long_chains(flags: dict[str, Any]) -> None:
    async with ScriptedTarget(**flags) as target:
        facts = await probed(target)
    assert not facts.takes_seeds
    assert facts.n_match is None


async def test_only_the_seed_slot_is_used_and_the_end_of_turn_does_not_end_it() -> None:
    async with ScriptedTarget(Language(mean_length=2)) as target:
        assert (await probed(target)).n_match == 4
        for request in target.received("/completion"):
            assert request.json["id_slot"] == 3
        assert all(set(one.emitted) <= {3} for one in target.passes)


async def test_a_target_that_fails_meanwhile() -> None:
    async with ScriptedTarget() as target:
        target.faults.answer = CannedAnswer(500, b"{}")
        with pytest.raises(TargetError, match="500"):
            await probed(target)
        target.faults.clear()
        target.faults.stream = StreamFault(Break.RESET, after_events=5)
        with pytest.raises(TargetError):
            await probed(target)
