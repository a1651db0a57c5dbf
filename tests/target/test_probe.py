"""The probe tells a pool that takes seeds, and its key length, from any other target."""

import random
from typing import Any

import pytest

from specproxy.errors import TargetError
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.probe import PoolProbe
from specproxy.testing import CannedAnswer, Language, ScriptedTarget


def probe_of(target: ScriptedTarget, client: TargetClient, seed: int = 0) -> PoolProbe:
    return PoolProbe(
        client,
        num_vocab=len(target.language.vocabulary),
        seed_slot=len(target.engine.slots) - 1,
        rng=random.Random(seed),
    )


async def probed(
    target: ScriptedTarget, seed: int = 0, *, expected: int | None = None
) -> int | None:
    async with TargetClient(TargetSettings(url=target.url)) as client:
        return await probe_of(target, client, seed).n_match(expected)


@pytest.mark.parametrize("n_match", [1, 2, 4, 6, 16, 26])
async def test_the_key_length_is_found(n_match: int) -> None:
    for seed in range(8):  # the toy language is full of cut characters
        async with ScriptedTarget(n_match=n_match) as target:
            assert await probed(target, seed) == n_match


@pytest.mark.parametrize("n_match", [1, 4, 26])
async def test_an_expected_key_length_is_found_sooner(n_match: int) -> None:
    num_passes = []
    for expected in (None, n_match):
        async with ScriptedTarget(n_match=n_match) as target:
            assert await probed(target, expected=expected) == n_match
            num_passes.append(len(target.passes))
    assert num_passes[1] < num_passes[0] / 2


@pytest.mark.parametrize("expected", [1, 3, 5, 20, 26, 64])
async def test_another_key_length_than_expected_is_found(expected: int) -> None:
    async with ScriptedTarget(n_match=4) as target:
        assert await probed(target, expected=expected) == 4


async def test_no_pool_where_one_was_expected() -> None:
    async with ScriptedTarget(has_ngram_pool=False) as target:
        assert await probed(target, expected=4) is None


@pytest.mark.parametrize("flags", [{"has_ngram_pool": False}, {"n_min": 48}, {"n_match": 32}])
async def test_no_pool_or_one_that_wants_long_chains(flags: dict[str, Any]) -> None:
    async with ScriptedTarget(**flags) as target:
        assert await probed(target) is None


@pytest.mark.parametrize(("n_min", "n_max"), [(1, 4), (5, 16), (0, 64)])
async def test_what_is_proposed_of_a_seed(n_min: int, n_max: int) -> None:
    async with (
        ScriptedTarget(n_match=4, n_min=n_min, n_max=n_max) as target,
        TargetClient(TargetSettings(url=target.url)) as client,
    ):
        probe = probe_of(target, client)
        assert await probe.num_proposed(4, 20) == min(n_max, 20)
        assert await probe.num_proposed(3, 20) == 0
        assert await probe.proposes(4, max(n_min, 1))
        assert n_min < 2 or not await probe.proposes(4, n_min - 1)


async def test_only_the_seed_slot_is_used_and_the_end_of_turn_does_not_end_it() -> None:
    async with ScriptedTarget(Language(mean_length=2)) as target:
        assert await probed(target) == 4
        for request in target.received("/completion"):
            assert request.json["id_slot"] == 3
        assert all(set(one.emitted) <= {3} for one in target.passes)


async def test_a_target_that_fails_meanwhile() -> None:
    async with ScriptedTarget() as target:
        target.faults.answer = CannedAnswer(500, b"{}")
        with pytest.raises(TargetError, match="500"):
            await probed(target)
