"""A route learns what its target allows, and keeps that true."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from specproxy.admission import admit
from specproxy.core.tasks import spawn, stop
from specproxy.route import Mode, Route
from specproxy.settings import SeedingSettings, TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing import (
    CannedAnswer,
    Language,
    ScriptedDrafter,
    ScriptedTarget,
    ToyVocabulary,
    until,
)
from specproxy.testing.vocabulary import WORDS

NATIVE = admit("native", {"prompt": "Hi", "stream": True})


@asynccontextmanager
async def served(
    target: ScriptedTarget, drafter: ScriptedDrafter | None, **settings: Any
) -> AsyncIterator[Route]:
    async with TargetClient(TargetSettings(url=target.url)) as client:
        seeding = SeedingSettings(**{"warm": "never", **settings})
        route = Route("toy", client, drafter, seeding, rng=random.Random(0))
        route.poll_s = 0.01
        task = spawn(route.serve(), name="route")
        yield route
        await stop(task)


async def test_it_starts_knowing_nothing() -> None:
    async with ScriptedTarget() as target, served(target, ScriptedDrafter()) as route:
        assert (route.mode, route.answers.speculates) == (Mode.STARTING, False)
        async with route.answers.lease("x") as slot:
            assert slot is None
        assert NATIVE is not None
        async with route.answers.session(NATIVE) as session:
            assert session is None
        await until(route.ready.is_set)
        assert (route.mode, route.answers.speculates) == (Mode.SEEDING, True)
        assert "n_match 4" in route.reason


async def test_a_foreign_vocabulary_names_both_models_and_the_difference() -> None:
    odd = ScriptedDrafter(Language(ToyVocabulary("odd", words=WORDS[::-1])))
    async with ScriptedTarget(model="mine") as target, served(target, odd) as route:
        await until(route.ready.is_set)
        assert route.mode is Mode.PASSTHROUGH
        assert not route.answers.speculates
        for part in ("odd", "mine", "token", "family"):
            assert part in route.reason


async def test_a_smaller_vocabulary_limits_the_draft() -> None:
    drafter = ScriptedDrafter(Language(ToyVocabulary(num_padding=40)))
    async with ScriptedTarget() as target, served(target, drafter) as route:
        await until(route.ready.is_set)
        assert route.mode is Mode.SEEDING
        assert NATIVE is not None
        async with route.answers.session(NATIVE):
            await until(lambda: drafter.limits)
        assert set(drafter.limits) == {len(target.language.vocabulary)}


async def test_restarts_are_seen() -> None:
    async with ScriptedTarget() as target, served(target, ScriptedDrafter()) as route:
        await until(route.ready.is_set)
        await target.down()
        await until(lambda: route.mode is Mode.STARTING)
        assert not route.ready.is_set()
        assert not route.answers.speculates
        await target.up()
        await until(route.ready.is_set)
        # as fast as nobody could look in between
        await target.down()
        await target.up(model="other")
        await until(lambda: not route.ready.is_set())
        await until(route.ready.is_set)
        assert route.mode is Mode.SEEDING


async def test_a_target_that_hangs_is_there_no_more() -> None:
    async with ScriptedTarget() as target, served(target, ScriptedDrafter()) as route:
        assert not route.is_there
        await until(lambda: route.is_there)
        target.faults.match = lambda request: True
        target.faults.hang = True
        route.there_s = 0.2
        await until(lambda: not route.is_there)
        assert route.facts is not None  # its look hangs, too
        target.faults.clear()


async def test_a_target_that_still_loads_is_waited_for() -> None:
    async with ScriptedTarget() as target:
        target.faults.loading = True
        async with served(target, ScriptedDrafter()) as route:
            await until(lambda: "503" in route.reason)
            target.faults.loading = False
            await until(route.ready.is_set)
            assert route.mode is Mode.SEEDING


async def test_a_probe_that_fails_is_repeated() -> None:
    async with ScriptedTarget() as target:
        target.faults.answer = CannedAnswer(500, b"{}")
        target.faults.remaining = 2
        async with served(target, ScriptedDrafter()) as route:
            await until(route.ready.is_set)
            assert route.mode is Mode.SEEDING


async def test_warming_runs_every_length_while_nobody_is_served() -> None:
    async with ScriptedTarget(num_slots=2) as target:
        settings = {"warm": "always", "warm_tokens": 8}
        async with served(target, ScriptedDrafter(), **settings) as route:
            await until(lambda: route.mode is Mode.SEEDING)
            await until(route.ready.is_set)
            assert {one.num_tokens for one in target.passes} >= set(range(2, 8))


async def test_warming_waits_for_answers_that_pass_through_too() -> None:
    async with ScriptedTarget(num_slots=2) as target:
        settings = {"warm": "always", "warm_tokens": 40}
        async with served(target, ScriptedDrafter(), **settings) as route:
            with route.load.answer():
                await until(lambda: route.mode is Mode.SEEDING and not target.engine.has_work)
                num_passes = len(target.passes)
                await asyncio.sleep(0.05)
                assert len(target.passes) == num_passes
            await until(route.ready.is_set)
            assert len(target.passes) == num_passes + 38


async def test_leases_are_of_all_slots_but_the_last() -> None:
    async with ScriptedTarget(num_slots=3) as target, served(target, ScriptedDrafter()) as route:
        await until(route.ready.is_set)
        async with route.answers.lease("a") as one, route.answers.lease("b") as other:
            assert {one, other} == {0, 1}
            waiting = spawn(hold(route), name="third")
            await until(lambda: route.num_waiting == 1)
            await stop(waiting)
            assert route.num_waiting == 0
        async with route.answers.lease("a") as again:
            assert again == one


async def test_who_waits_for_a_slot_of_a_life_that_ends_waits_no_more() -> None:
    async with ScriptedTarget(num_slots=2) as target, served(target, ScriptedDrafter()) as route:
        await until(route.ready.is_set)
        async with route.answers.lease("a") as slot:
            assert slot == 0
            waiting = spawn(leased(route), name="waiting")
            await until(lambda: route.num_waiting == 1)
            await target.down()
            await target.up(model="other")
            assert await waiting is None
            await until(lambda: route.answers.speculates)
            assert await leased(route) == 0  # of the new life
            assert route.num_waiting == 0


async def leased(route: Route) -> int | None:
    async with route.answers.lease("b") as slot:
        return slot


async def hold(route: Route) -> None:
    async with route.answers.lease("c"):
        await asyncio.Event().wait()


async def test_a_session_is_counted_while_it_lasts() -> None:
    drafter = ScriptedDrafter()
    async with ScriptedTarget() as target, served(target, drafter) as route:
        await until(route.ready.is_set)
        with pytest.raises(RuntimeError, match="client"):
            await leave(route)
        assert (route.num_running, drafter.num_open) == (0, 0)
        assert route.counts.num_seeded > 0
        drafter.kill()
        assert not route.answers.speculates


async def leave(route: Route) -> None:
    """An answer that ends by an error, once it has been seeded for."""
    assert NATIVE is not None
    async with route.answers.session(NATIVE) as session:
        assert session is not None
        assert route.num_running == 1
        await until(lambda: session.counts.num_seeded)
        raise RuntimeError("the client left")
