"""What a rig tells a route is what the route would find out by asking."""

import random
from typing import Any

import pytest

from specproxy.errors import VocabularyMismatch
from specproxy.route.finder import Finder
from specproxy.settings import SeedingSettings, TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.testing import ReceivedRequest, ScriptedTarget, ToyVocabulary
from specproxy.testing.known import Known
from specproxy.testing.rig import proxied
from specproxy.testing.vocabulary import WORDS
from specproxy.ways.seeding import PoolFacts


async def found(finder: Finder, target: ScriptedTarget, **settings: Any) -> tuple[int, PoolFacts]:
    """All that it finds, for a draft of the same language."""
    async with TargetClient(TargetSettings(url=target.url)) as client:
        facts = await read_facts(client)
        num_shared = await finder.num_shared(client, facts, ToyVocabulary("draft"))
        seeding = SeedingSettings(**settings)
        return num_shared, await finder.pool(client, facts, seeding, random.Random(0))


def posted(target: ScriptedTarget) -> list[ReceivedRequest]:
    return [request for request in target.requests if request.method == "POST"]


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"has_ngram_pool": False},
        {"num_slots": 2, "n_ctx": 64},
        {"n_ctx": 400},
        {"n_max": 16},
        {"n_max": 300},
        {"n_match": 3},
        {"n_match": 24},
    ],
)
async def test_what_is_told_is_what_is_found(flags: dict[str, Any]) -> None:
    async with ScriptedTarget(**flags) as target:
        told = await found(Known(target), target)
        (planted,) = posted(target)
        assert planted.json["id_slot"] == len(target.engine.slots) - 1
        assert await found(Finder(), target) == told
        assert len(posted(target)) > 6


@pytest.mark.parametrize(
    ("flags", "settings", "n_match"),
    [
        ({"n_min": 48}, {}, None),
        ({"n_min": 2}, {}, 4),
        ({"n_match": 1}, {}, 1),
        ({"n_match": 40}, {}, None),
        ({"lacking": ["/infill"]}, {}, 4),
        ({}, {"n_match": 7}, 4),
    ],
)
async def test_what_is_not_plain_is_asked_for(
    flags: dict[str, Any], settings: dict[str, Any], n_match: int | None
) -> None:
    async with ScriptedTarget(**flags) as target:
        _, pool = await found(Known(target), target, **settings)
        assert pool.n_match == n_match
        assert len(target.received("/completion")) > 1


async def test_another_vocabulary_is_compared() -> None:
    async with ScriptedTarget() as target:
        known = Known(target)
        async with TargetClient(TargetSettings(url=target.url)) as client:
            facts = await read_facts(client)
            padded = ToyVocabulary(num_padding=40)
            num_tokens = len(target.language.vocabulary)
            assert await known.num_shared(client, facts, padded) == num_tokens
            for odd in (ToyVocabulary(words=WORDS[::-1]), ToyVocabulary(add_bos=False)):
                with pytest.raises(VocabularyMismatch):
                    await known.num_shared(client, facts, odd)


async def test_a_process_that_began_later_is_asked() -> None:
    async with ScriptedTarget() as target:
        known = Known(target)
        told = await found(known, target)
        await target.down()
        await target.up()
        assert await found(known, target) == told
        assert len(posted(target)) > 6


@pytest.mark.parametrize("probed", [True, False])
async def test_a_rig_tells_unless_it_shall_be_probed(probed: bool) -> None:
    async with proxied(probed=probed) as rig:
        assert rig.target.pool is not None
        assert bool(rig.target.pool.num_used) is probed


async def test_a_rig_that_does_not_wait_is_probed() -> None:
    async with proxied(ready=False) as rig:
        await rig.target.wait_for("/detokenize")
