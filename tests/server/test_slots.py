"""Who runs in which slot, also where the target chooses: nobody waits behind a slot in use while
another is idle, and no answer runs in the slot for seeds."""

import asyncio
import json
from typing import Any

import pytest

from specproxy.core.tasks import spawn, stop
from specproxy.testing import Language, until
from specproxy.testing.differential import differs
from specproxy.testing.rig import PATHS, Answer, Rig, proxied
from specproxy.ways.seeding import SeedingWay

LANGUAGE = Language(mean_length=0)
LONG = 3000
LATEST: dict[str, Any] = {"probed": True, "similarity": 0.0, "pass_ms": 2.0}
"""Of a target that chooses by when each slot was last used, the probed one among them."""
SEA = "Tell me of the sea and of all that lives in it"
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": [{"role": "user", "content": SEA}], "stream": True}),
    ("messages", {"messages": [{"role": "user", "content": SEA}]}),
    ("chat", {"messages": [{"role": "user", "content": SEA}], "n": 2}),
    ("native", {"prompt": ["The sea", "The moon"]}),
    ("native", {"prompt": "The sea", "id_slot": 0}),
    ("infill", {"input_prefix": "The sea", "input_suffix": "moon"}),
]


def chat(*turns: str, max_tokens: int = 6) -> dict[str, Any]:
    roles = ("user", "assistant") * len(turns)
    messages = [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
    return {"messages": messages, "max_tokens": max_tokens, "temperature": 0}


def held(rig: Rig) -> dict[int, list[int]]:
    """What each slot's cache holds."""
    return {slot.id: list(slot.tokens) for slot in rig.target.engine.slots}


@pytest.mark.parametrize("num_before", [0, 1, 4])
@pytest.mark.parametrize(("kind", "body"), OTHERS)
async def test_a_chat_does_not_wait_for_what_runs_beside_it(
    kind: str, body: dict[str, Any], num_before: int
) -> None:
    async with proxied(LANGUAGE, **LATEST, num_slots=4) as rig:
        for index in range(num_before):
            await rig.ask("chat", chat(f"Before: {index}"))
        limit = {"max_tokens": LONG, "n_predict": LONG, "temperature": 0}
        beside = spawn(rig.ask(kind, {**body, **limit}), name="beside")
        await rig.target.wait_for(PATHS[kind], num_before + 1 if kind == "chat" else 1)
        await until(lambda: any(slot.busy for slot in rig.target.engine.slots[:3]))
        got = await rig.ask("chat", chat("Who are you?"))
        assert (got.status, beside.done()) == (200, False)
        await stop(beside)
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("num_slots", [2, 3])
async def test_messages_come_back_to_their_slot_and_not_to_the_one_for_seeds(
    num_slots: int, stream: bool
) -> None:
    async with proxied(LANGUAGE, **LATEST, num_slots=num_slots) as rig:
        await rig.ask("chat", chat("A talk of its own", max_tokens=30))  # seeded, in slot 0
        others = held(rig)[0]
        turns, slot = [SEA], num_slots - 2
        for _ in range(3):
            await rig.rest()
            del rig.target.passes[:]
            body = {**chat(*turns, max_tokens=60), "stream": stream}
            got = await rig.ask("messages", body)
            assert differs(got, await rig.alone("messages", body)) is None
            num_said = sum(one.emitted.get(slot, 0) for one in rig.target.passes)
            num_read = sum(one.prompted.get(slot, 0) for one in rig.target.passes)
            assert num_said == 60
            assert num_read < 80  # what was said last at most: the rest is in the slot's cache
            turns += [said(got.events if stream else [got.json]), "Go on"]
        assert num_slots == 2 or held(rig)[0] == others


async def test_what_an_answer_left_in_the_slot_for_seeds_is_not_taken_for_a_seed() -> None:
    async with proxied(LANGUAGE, **LATEST, num_slots=3) as rig:
        way = rig.server.route.answers.way
        assert isinstance(way, SeedingWay)
        await rig.ask("chat", chat("Who are you?", max_tokens=30))
        await rig.rest()
        assert len(way._seeder._slot)
        await rig.ask("native", {"prompt": "The sea", "id_slot": 2, "n_predict": 2})
        assert not len(way._seeder._slot)


def said(events: list[Any]) -> str:
    """The text of messages, as one answer or as events."""
    blocks = [block for event in events for block in event.get("content", ())]
    deltas = [event["delta"] for event in events if "delta" in event]
    return "".join(part.get("text", "") for part in (*blocks, *deltas))


async def test_several_that_cannot_name_their_slots_get_one_each() -> None:
    async with proxied(LANGUAGE, **LATEST, num_slots=3) as rig:
        for _ in range(3):
            texts = [SEA, "What of the moon?"]
            bodies = [chat(text, max_tokens=40) for text in texts]
            await asyncio.gather(*(rig.ask("messages", body) for body in bodies))
            await rig.rest()
        assert not any(2 in one.emitted for one in rig.target.passes)
        assert {len(tokens) > 40 for slot, tokens in held(rig).items() if slot < 2} == {True}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("num_choices", [0, -1, "x", 1.5, 2.7, 10**9, 4, 5])
async def test_whatever_number_of_choices_is_left_to_the_target(
    num_choices: object, stream: bool
) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("chat", chat("Hi")),
        *((kind, {"prompt": "Hi"}) for kind in ("completions", "native")),
        *((kind, {"prompt": ["The sea", "The moon"]}) for kind in ("completions", "native")),
    ]
    limit = {"max_tokens": 4, "n_predict": 4, "temperature": 0, "stream": stream}
    async with proxied(LANGUAGE, num_slots=4) as rig:
        for kind, body in bodies:
            body = {**body, **limit, "n": num_choices}
            got, alone = await rig.ask(kind, body), await rig.alone(kind, body)
            assert (got.status, got.whole) == (alone.status, True)
            assert said_by(got) == said_by(alone)
        await rig.rest()


def said_by(got: Answer) -> Any:
    """All that was said, where choices come in any order."""
    if got.content_type != "text/event-stream":
        return got.content
    return sorted(json.dumps(event, sort_keys=True) for event in got.content)


async def test_a_broken_number_of_choices_does_not_cut_the_stream() -> None:
    body = {"prompt": ["The sea", "What of the moon?"], "n": 2.7, "stream": True, "seed": 0}
    async with proxied(Language(mean_length=30), num_slots=4, pass_ms=2.0) as rig:
        got = await rig.ask("native", {**body, "n_predict": 80})
        assert sum(event["stop"] for event in got.events if event) == 4


@pytest.mark.parametrize("num_choices", [0, -1])
async def test_nobody_waits_behind_choices_that_the_target_will_refuse(num_choices: int) -> None:
    async with proxied(LANGUAGE, num_slots=4) as rig:
        rig.target.faults.match = lambda request: request.path == PATHS["completions"]
        rig.target.faults.delay_s = 10.0
        body = {"prompt": ["The sea", "The moon"], "n": num_choices}
        beside = spawn(rig.ask("completions", body), name="beside")
        await rig.target.wait_for(PATHS["completions"], 1)
        got = await rig.ask("chat", chat("Who are you?"))
        assert (got.status, beside.done()) == (200, False)
        await stop(beside)
