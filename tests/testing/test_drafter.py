"""The scripted drafter keeps the protocol, except where its behaviour says otherwise."""

import asyncio
import random

import pytest

from specproxy.core.tasks import spawn
from specproxy.draft.protocol import Drafter
from specproxy.errors import DraftUnavailable
from specproxy.testing import Language, ScriptedDrafter, drafter, generate
from specproxy.testing.drafter import Behaviour

LANGUAGE = Language(mean_length=0)
CONTEXT = [100, 101, 102]
EXPECTED = generate(LANGUAGE, CONTEXT, max_tokens=8)


async def drafted(behaviour: Behaviour, num_tokens: int = 8) -> list[int]:
    made: Drafter = ScriptedDrafter(LANGUAGE, behaviour)
    return [one.token for one in await made.open().draft(CONTEXT, num_tokens)]


async def test_perfect_is_the_targets_greedy_continuation() -> None:
    assert await drafted(drafter.perfect) == EXPECTED
    assert await drafted(drafter.perfect, 0) == []
    first = (await ScriptedDrafter(LANGUAGE).open().draft(CONTEXT, 1))[0]
    assert (first.token, first.probability) == LANGUAGE.distribution(CONTEXT)[0]
    assert first.alternatives == LANGUAGE.distribution(CONTEXT)[1:4]


async def test_perfect_ends_with_the_turn() -> None:
    language = Language().with_script("Hi", "Hello")
    prompt = language.vocabulary.tokenize("Hi", add_special=True)
    block = await ScriptedDrafter(language).open().draft(prompt, 8)
    assert [one.token for one in block] == generate(language, prompt)
    assert language.vocabulary.is_end(block[-1].token)


async def test_wrong_behaviours() -> None:
    context = list(CONTEXT)
    for token in await drafted(drafter.adversarial):
        assert token != LANGUAGE.best(context)
        context.append(token)
    mixed = await drafted(drafter.right_then_wrong(3))
    assert mixed[:3] == EXPECTED[:3]
    assert mixed[3] != EXPECTED[3]
    assert await drafted(drafter.empty) == []
    assert await drafted(drafter.repeats_last) == [102] * 8
    assert len(await drafted(drafter.babbling(random.Random(0)))) == 8
    assert len(await drafted(drafter.miscounting(3))) == 11
    assert len(await drafted(drafter.miscounting(-3))) == 5


async def test_noise_has_its_rate() -> None:
    behaviour = drafter.noisy(0.3, random.Random(0))
    wrong = 0
    for _ in range(300):
        wrong += (await drafted(behaviour, 1)) != EXPECTED[:1]
    assert 60 < wrong < 120
    assert await drafted(drafter.noisy(0.0, random.Random(0))) == EXPECTED


async def test_a_cut_gives_what_is_there() -> None:
    made = ScriptedDrafter(LANGUAGE, delay_s=0.01)
    sequence = made.open()
    sequence.cut()
    call = spawn(sequence.draft(CONTEXT, 1000), name="draft")
    await sequence.first_token.wait()
    sequence.cut()
    block = [one.token for one in await call]
    assert 0 < len(block) < 1000
    assert block[:8] == EXPECTED[: len(block)]


async def test_a_dead_drafter_stays_dead() -> None:
    made = ScriptedDrafter(LANGUAGE, fail_after_calls=1)
    sequence = made.open()
    await sequence.draft(CONTEXT, 2)
    assert made.alive
    for _ in range(2):
        with pytest.raises(DraftUnavailable):
            await sequence.draft(CONTEXT, 2)
    assert not made.alive
    with pytest.raises(DraftUnavailable):
        made.open()
    sequence.close()
    sequence.close()
    assert made.num_open == 0
    assert made.calls == [(CONTEXT, 2)]


async def test_killing_ends_a_running_call() -> None:
    made = ScriptedDrafter(LANGUAGE, delay_s=0.005)
    call = spawn(made.open().draft(CONTEXT, 1000), name="draft")
    await asyncio.sleep(0)
    made.kill()
    with pytest.raises(DraftUnavailable):
        await call
