"""A request that names no slot lands where it should; what leads it there costs nothing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.steering import steered
from specproxy.testing import CannedAnswer, ScriptedTarget

NUM_SLOTS = 4


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(num_slots=NUM_SLOTS, similarity=0.0) as running:
        yield running


@pytest.fixture
async def client(target: ScriptedTarget) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=target.url)) as running:
        yield running


async def ask(client: TargetClient, **more: Any) -> int:
    """The slot that an answer ran in."""
    body = {"prompt": "The sea", "n_predict": 4, "temperature": 0, **more}
    answer = await client.json("POST", "/completion", body)
    return int(answer["id_slot"])


async def test_the_target_chooses_none_of_those(client: TargetClient) -> None:
    for wanted in (1, 0, 3, 3, 2, 0):
        async with steered(client, {*range(NUM_SLOTS)} - {wanted}):
            assert await ask(client) == wanted


async def test_their_caches_stay_and_no_pass_is_run(
    target: ScriptedTarget, client: TargetClient
) -> None:
    for slot in range(NUM_SLOTS):
        await ask(client, id_slot=slot)
    tokens = [list(slot.tokens) for slot in target.engine.slots]
    num_passes = len(target.passes)
    async with steered(client, range(NUM_SLOTS)):
        assert [slot.tokens for slot in target.engine.slots] == tokens
        assert len(target.passes) == num_passes
    assert min(map(len, tokens)) > 4


async def test_the_request_goes_though_the_target_refuses_or_is_busy(
    target: ScriptedTarget, client: TargetClient
) -> None:
    target.faults.answer = CannedAnswer(400, b"{}")
    async with steered(client, [0, 1]):
        target.faults.clear()
        await ask(client)
    target.clock.hold()
    async with steered(client, [0, 1]):
        target.clock.go()
        await ask(client)
