"""The seeder: what is drafted reaches the target's pool, one seed at a time."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from specproxy.core.drafted import DraftToken
from specproxy.core.seeds import SeedSlot
from specproxy.core.tasks import spawn, stop
from specproxy.core.tree import DraftTree, SeedState
from specproxy.core.worth import Worth
from specproxy.errors import TargetError
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.seeding import Seeder, plant
from specproxy.target.warmup import Warmer
from specproxy.testing import CannedAnswer, ScriptedTarget, until

N_MATCH, SEED_SLOT = 4, 1


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(num_slots=2, n_match=N_MATCH) as running:
        yield running


@pytest.fixture
async def client(target: ScriptedTarget) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=target.url)) as running:
        yield running


def made_seeder(client: TargetClient, worth: Worth | None = None) -> Seeder:
    """Seeds of 32 tokens."""
    return Seeder(
        client,
        n_match=N_MATCH,
        seed_slot=SEED_SLOT,
        max_tokens=32,
        num_context=4096,
        worth=worth,
    )


@pytest.fixture
async def seeder(client: TargetClient) -> AsyncIterator[Seeder]:
    made = made_seeder(client)
    task = spawn(made.run(), name="seeder")
    yield made
    await stop(task)


class Drafts:
    """A tree that grows by tokens which all differ."""

    def __init__(self, first: int = 20) -> None:
        self._tokens: Iterator[int] = itertools.count(first)
        self.tree = DraftTree(list(itertools.islice(self._tokens, 6)))

    def grow(self, count: int) -> None:
        more = [DraftToken(token) for token in itertools.islice(self._tokens, count)]
        self.tree.extend(self.tree.tip, more)

    @property
    def states(self) -> set[SeedState]:
        return {node.state for node in self.tree.main_line()}


async def test_plant_reads_a_prompt_in_the_seed_slot(
    target: ScriptedTarget, client: TargetClient
) -> None:
    await plant(client, range(20, 28), seed_slot=SEED_SLOT)
    assert target.pool is not None
    assert target.pool.get([20, 21, 22, 23]) == 24
    (request,) = target.received("/completion")
    assert (request.json["id_slot"], request.json["n_predict"]) == (SEED_SLOT, 1)
    target.faults.answer = CannedAnswer(400, b"{}")
    with pytest.raises(TargetError):
        await plant(client, [20], seed_slot=SEED_SLOT)


async def test_what_is_drafted_is_pooled(target: ScriptedTarget, seeder: Seeder) -> None:
    drafts = Drafts()
    with seeder.serving(drafts.tree):
        drafts.grow(5)
        seeder.wake()
        await until(lambda: drafts.states == {SeedState.POOLED})
    assert drafts.tree.num_seeded == 5
    assert target.pool is not None
    context = drafts.tree.tokens
    expected = [node.token for node in drafts.tree.main_line()]
    assert target.pool.draft(0, context[:-1], context[-1]) == expected


async def test_one_seed_flies_and_what_comes_meanwhile_rides_in_the_next(
    target: ScriptedTarget, seeder: Seeder
) -> None:
    one, other = Drafts(), Drafts(first=120)
    target.clock.hold()
    with seeder.serving(one.tree), seeder.serving(other.tree):
        one.grow(2)
        seeder.wake()
        await target.wait_for("/completion")
        for drafts in (one, other, one, other):
            drafts.grow(2)
            seeder.wake()
            await asyncio.sleep(0.01)
        assert len(target.received("/completion")) == 1
        target.clock.go()
        await until(lambda: one.states == other.states == {SeedState.POOLED})
    assert len(target.received("/completion")) == 2


async def test_the_slots_prefix_is_not_read_again(target: ScriptedTarget, seeder: Seeder) -> None:
    drafts = Drafts()
    with seeder.serving(drafts.tree):
        for _ in range(4):
            drafts.grow(3)
            seeder.wake()
            await until(lambda: drafts.states == {SeedState.POOLED})
    assert [sum(one.prompted.values()) for one in target.passes] == [7, 3, 3, 3]


async def test_what_warmed_the_slot_is_not_taken_for_a_seed(
    target: ScriptedTarget, client: TargetClient, seeder: Seeder
) -> None:
    drafts = Drafts()
    warmer = Warmer(
        client, seed_slot=SEED_SLOT, num_vocab=99, rng=random.Random(0), tell_used=seeder.forget
    )
    for _ in range(2):
        with seeder.serving(drafts.tree):
            drafts.grow(3)
            seeder.wake()
            await until(lambda: drafts.states == {SeedState.POOLED})
        await until(lambda: seeder.is_at_rest)
        await warmer.run(9)
    assert [sum(one.prompted.values()) for one in target.passes] == [7, 9, 7, 9]


async def test_a_failed_seed_is_sent_again(target: ScriptedTarget, seeder: Seeder) -> None:
    drafts = Drafts()
    target.faults.answer = CannedAnswer(500, b"{}")
    target.faults.remaining = 1
    with seeder.serving(drafts.tree):
        drafts.grow(3)
        seeder.wake()
        await until(lambda: drafts.states == {SeedState.POOLED})
    assert seeder.num_failed == 1
    assert len(target.received("/completion")) == 2


async def test_a_void_seed_does_not_block_the_next(target: ScriptedTarget, seeder: Seeder) -> None:
    drafts = Drafts()
    target.clock.hold()
    with seeder.serving(drafts.tree):
        drafts.grow(3)
        seeder.wake()
        await target.wait_for("/completion")
        drafts.tree.advance([10])  # a miss
        drafts.grow(3)
        seeder.wake()
        await target.wait_for("/completion", 2)
        target.clock.go()
        await until(lambda: drafts.states == {SeedState.POOLED})


async def test_nothing_is_sent_for_an_answer_that_has_ended(
    target: ScriptedTarget, seeder: Seeder
) -> None:
    drafts = Drafts()
    with seeder.serving(drafts.tree):
        drafts.grow(3)
    seeder.wake()
    later = Drafts(first=120)
    with seeder.serving(later.tree):
        later.grow(1)
        seeder.wake()
        await until(lambda: later.states == {SeedState.POOLED})
    assert drafts.states == {SeedState.PLANNED}
    assert len(target.received("/completion")) == 1


async def test_the_end_of_the_seeder_ends_its_flights(
    target: ScriptedTarget, client: TargetClient
) -> None:
    seeder = made_seeder(client)
    task = spawn(seeder.run(), name="seeder")
    drafts = Drafts()
    target.clock.hold()
    with seeder.serving(drafts.tree):
        drafts.grow(3)
        seeder.wake()
        await target.wait_for("/completion")
        await stop(task)
        target.clock.go()
        await until(lambda: not target.engine.has_work)
    assert not [one for one in asyncio.all_tasks() if one.get_name() == "seed"]


async def test_no_seed_leaves_when_the_context_is_nearly_full(
    target: ScriptedTarget, client: TargetClient
) -> None:
    drafts = Drafts()
    seeder = Seeder(
        client, n_match=N_MATCH, seed_slot=SEED_SLOT, max_tokens=32, num_context=4 * 32 + 20
    )
    task = spawn(seeder.run(), name="seeder")
    with seeder.serving(drafts.tree):
        drafts.grow(8)  # 6 + 8 tokens beside a reserve of 4 seeds: 142 of 148
        seeder.wake()
        await until(lambda: drafts.states == {SeedState.POOLED})
        num_seeds = len(target.received("/completion"))
        drafts.grow(8)
        seeder.wake()
        await asyncio.sleep(0.05)
        assert len(target.received("/completion")) == num_seeds
    await stop(task)


async def test_no_answer_waits_for_another_to_end(client: TargetClient) -> None:
    seeder = made_seeder(client)
    one, other, slot = Drafts(), Drafts(first=520), SeedSlot()
    with seeder.serving(one.tree), seeder.serving(other.tree):
        other.grow(40)
        for _ in range(4):
            one.grow(12)
            seed = slot.compose(seeder._runs(), 32)
            assert seed is not None
            slot.commit(seed)
            seed.mark(SeedState.POOLED)
            pooled = [n.token for n in one.tree.main_line() if n.state is SeedState.POOLED]
            one.tree.advance(pooled)
        assert other.tree.num_pooled >= 32
        assert one.tree.num_ahead <= 12


async def test_a_pause_before_a_seeded_answer_is_no_pass(client: TargetClient) -> None:
    worth, drafts = Worth(N_MATCH), Drafts()
    seeder = made_seeder(client, worth=worth)
    seeder.passed(0.0)  # of an answer that is not seeded
    seeder.passed(0.2)
    with seeder.serving(drafts.tree):
        for now_s in (300.0, 300.2, 300.4):
            seeder.passed(now_s)
            drafts.tree.advance([10])
            worth.said(1)
    assert worth.pace_s < 1.0


async def test_reading_a_prompt_beside_an_answer_says_nothing_of_seeds(
    client: TargetClient,
) -> None:
    worth, one, other = Worth(N_MATCH), Drafts(), Drafts(first=520)
    seeder = made_seeder(client, worth=worth)
    with seeder.serving(one.tree), seeder.serving(other.tree):
        for now_s in (0.0, 30.0, 60.0):
            seeder.passed(now_s)
            one.tree.advance([10])
        assert worth.pace_s < 1.0
        other.tree.advance([10])
        worth.said(1)
        seeder.passed(90.0)
        assert worth.pace_s > 1.0


async def test_what_rows_cost_is_learned_far_from_the_target(client: TargetClient) -> None:
    client._travels.append(0.05)
    worth, drafts = Worth(N_MATCH), Drafts()
    seeder = made_seeder(client, worth=worth)
    task = spawn(seeder.run(), name="seeder")
    with seeder.serving(drafts.tree):
        for _ in range(8):
            seeder.passed(time.monotonic())
            drafts.tree.advance([10])
            drafts.grow(2)
            seeder.wake()
            await asyncio.sleep(0.06)
    await stop(task)
    assert worth.cost.num_observed > 2
