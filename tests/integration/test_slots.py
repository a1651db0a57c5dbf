"""A real server is led to the slot that a request cannot name, and that costs it nothing."""

from collections.abc import Collection

import pytest

from specproxy.pool.demo import DemoPool
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.target.steering import steered

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

PROMPT = "The sea is deep, and nobody knows all that lives in it."


async def ask(client: TargetClient, passed_over: Collection[int]) -> tuple[int, int]:
    """The slot that an answer ran in, and how much of its prompt was there already."""
    async with steered(client, passed_over):
        body = {"prompt": PROMPT, "n_predict": 4, "temperature": 0}
        answer = await client.json("POST", "/completion", body)
    return answer["id_slot"], answer["timings"]["cache_n"]


async def test_an_answer_runs_where_the_target_is_led(demo_pool: DemoPool) -> None:
    async with TargetClient(TargetSettings(url=demo_pool.url)) as client:
        slots = {*range((await read_facts(client)).num_slots)}
        for wanted in (*slots, *slots, *reversed([*slots])):
            slot, _ = await ask(client, slots - {wanted})
            assert slot == wanted
        for _ in range(6):  # a server gives up after a few passes that are empty, if none is begun
            async with steered(client, slots):
                pass
        for wanted in slots:
            slot, num_cached = await ask(client, slots - {wanted})
            assert (slot, num_cached > 8) == (wanted, True)
