"""Warm lengths: only where a new length is dear, each once, only when idle."""

import random
from collections.abc import AsyncIterator

import pytest

from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.warmup import Warmer, When
from specproxy.testing import CannedAnswer, ScriptedTarget


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(num_slots=2) as running:
        yield running


@pytest.fixture
async def warmer(target: ScriptedTarget) -> AsyncIterator[Warmer]:
    async with TargetClient(TargetSettings(url=target.url)) as client:
        yield Warmer(
            client,
            seed_slot=1,
            num_vocab=len(target.language.vocabulary),
            rng=random.Random(0),
        )


@pytest.mark.parametrize(("new_length_ms", "pays"), [(100.0, True), (0.0, False)])
async def test_it_pays_where_a_new_length_is_dear(
    target: ScriptedTarget, warmer: Warmer, new_length_ms: float, pays: bool
) -> None:
    await warmer.run(3)
    target.clock.pass_ms = 20.0
    target.clock.new_length_ms = new_length_ms
    assert await warmer.pays(16) is pays


async def test_every_length_is_run_once_in_the_given_order(
    target: ScriptedTarget, warmer: Warmer
) -> None:
    async def idle() -> None:
        pass

    await warmer.warm([5, 2, 9], idle)
    assert [one.num_tokens for one in target.passes] == [5, 2, 9]
    assert all(set(one.prompted) == {1} for one in target.passes)
    assert warmer.num_warmed == 3


async def test_it_waits_until_nothing_runs(target: ScriptedTarget, warmer: Warmer) -> None:
    asked: list[int] = []

    async def idle() -> None:
        asked.append(len(target.passes))

    await warmer.warm([2, 3, 4], idle)
    assert asked == [0, 1, 2]


async def test_it_is_measured_while_nothing_runs(target: ScriptedTarget, warmer: Warmer) -> None:
    asked: list[int] = []

    async def idle() -> None:
        asked.append(len(target.passes))

    target.clock.pass_ms = 5.0
    await warmer.warm_up("auto", 5, idle)
    assert asked[0] == 0
    asked.clear()
    await warmer.warm_up("never", 5, idle)
    assert not asked


@pytest.mark.parametrize(
    ("when", "new_length_ms", "lengths"),
    [("always", 0.0, {2, 3, 4}), ("never", 100.0, set()), ("auto", 100.0, {2, 3, 4, 5})],
)
async def test_all_is_warmed_where_that_is_wanted(
    target: ScriptedTarget, warmer: Warmer, when: When, new_length_ms: float, lengths: set[int]
) -> None:
    async def idle() -> None:
        pass

    target.clock.pass_ms = 20.0
    target.clock.new_length_ms = new_length_ms
    assert await warmer.warm_up(when, 5, idle) is bool(lengths)
    assert {one.num_tokens for one in target.passes} == lengths


async def test_a_target_that_fails_ends_the_warming(target: ScriptedTarget, warmer: Warmer) -> None:
    async def idle() -> None:
        target.faults.answer = CannedAnswer(500, b"{}")

    assert not await warmer.warm_up("always", 5, idle)
