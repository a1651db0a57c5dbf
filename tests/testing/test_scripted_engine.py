"""The scripted engine says what the language says, whatever is drafted for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from specproxy.coordinator.generation import GenerationRequest, Step
from specproxy.core.drafts import GrownNode
from specproxy.core.sampling import SamplingParams as Sampling
from specproxy.errors import CoordinatorError
from specproxy.testing.language import Language, SamplingParams, generate
from specproxy.testing.scripted_engine import ScriptedEngine

LANGUAGE = Language(mean_length=60)
PROMPT = (0, 9, 200, 300)


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    made = ScriptedEngine(LANGUAGE)
    yield made
    await made.aclose()


def request(**more: object) -> GenerationRequest:
    wanted = {"prompt": PROMPT, "sampling": Sampling(temperature=0.0), "max_tokens": 30, **more}
    return GenerationRequest(**wanted)  # type: ignore[arg-type]


def tokens_of(steps: list[Step]) -> list[int]:
    return [emitted.token for step in steps for emitted in step.tokens]


async def test_it_says_what_the_oracle_says(engine: ScriptedEngine) -> None:
    steps = [step async for step in engine.generate(request())]
    assert tokens_of(steps) == generate(LANGUAGE, PROMPT, max_tokens=30)
    assert steps[-1].finish is not None
    assert engine.num_passes == len(steps)


async def test_sampled_answers_too(engine: ScriptedEngine) -> None:
    sampling = Sampling(temperature=1.0, seed=3)
    steps = [step async for step in engine.generate(request(sampling=sampling))]
    oracle = SamplingParams(temperature=1.0, seed=3)
    assert tokens_of(steps) == generate(LANGUAGE, PROMPT, max_tokens=30, sampling=oracle)


async def test_a_tree_is_verified(engine: ScriptedEngine) -> None:
    expected = generate(LANGUAGE, PROMPT, max_tokens=30)
    generation = engine.generate(request(drafted=True))
    wrong = GrownNode(0, None, len(PROMPT), expected[0] + 1, 0.6)
    right = [
        GrownNode(1 + i, i or None, len(PROMPT) + i, token, 0.9)
        for i, token in enumerate(expected[:10])
    ]
    generation.grow([wrong, *right], go_at=0)
    steps = [step async for step in generation]
    assert tokens_of(steps) == expected
    assert (steps[0].num_verified, steps[0].num_accepted) == (11, 10)


async def test_it_waits_for_announced_nodes(engine: ScriptedEngine) -> None:
    generation = engine.generate(request(drafted=True))
    generation.grow([], go_at=2)
    step = asyncio.ensure_future(anext(generation))  # noqa: TID251
    await asyncio.sleep(0.05)
    assert not step.done()
    generation.grow([], go_at=0)
    assert (await step).num_verified == 0
    generation.close()


async def test_prompts_are_cached(engine: ScriptedEngine) -> None:
    for num_cached in (0, len(PROMPT) - 1):
        generation = engine.generate(request())
        assert [step async for step in generation]
        assert generation.num_cached == num_cached


async def test_more_answers_than_places_wait_in_line(engine: ScriptedEngine) -> None:
    async def ask() -> list[int]:
        return tokens_of([step async for step in engine.generate(request())])

    answers = await asyncio.gather(*(ask() for _ in range(9)))
    assert answers == [generate(LANGUAGE, PROMPT, max_tokens=30)] * 9


async def test_it_dies(engine: ScriptedEngine) -> None:
    engine.die_after = 3
    generation = engine.generate(request())
    with pytest.raises(CoordinatorError):
        assert [step async for step in generation]
    assert not engine.alive
    with pytest.raises(CoordinatorError):
        engine.generate(request())
