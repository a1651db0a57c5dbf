"""The real engine on the real model: whatever is drafted, the answer is that of plain decoding."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from specproxy.coordinator.engine import LlamaEngine
from specproxy.coordinator.generation import Generation, GenerationRequest
from specproxy.coordinator.options import EngineOptions
from specproxy.core.sampling import SamplingParams
from specproxy.core.tasks import spawn
from specproxy.errors import CoordinatorError, RequestError
from specproxy.llama.model import Model
from specproxy.pool.models import DemoModels
from tests.coordinator.engine_parts import (
    GREEDY,
    Answered,
    Grower,
    Plain,
    PlainDecoder,
    answer,
    assert_same,
)

pytestmark = pytest.mark.real

PROMPTS = (
    "The village lay by the sea, and every morning the fishermen",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "Water boils at a hundred degrees. Ice melts at",
    "1, 2, 3, 4, 5, 6, 7,",
)
NUM_TOKENS = 16
KINDS = ("perfect", "noisy", "adversarial", "branchy", "garbage")
OPTIONS = EngineOptions(num_places=4, context_tokens=1024, num_branches=6, warm="never")


@pytest.fixture(scope="module")
def plain(demo_models: DemoModels) -> Iterator[PlainDecoder]:
    model = Model(demo_models.target)
    decoder = PlainDecoder(model)
    yield decoder
    decoder.close()
    model.close()


@pytest.fixture(scope="module")
def shared(demo_models: DemoModels) -> Iterator[LlamaEngine]:
    """For tests that leave it as they found it, but for cached tokens."""
    engine = LlamaEngine(Model(demo_models.target), OPTIONS)
    yield engine
    engine.close()


@pytest_asyncio.fixture
async def make_engine(demo_models: DemoModels) -> AsyncIterator[Callable[..., LlamaEngine]]:
    engines: list[LlamaEngine] = []

    def make(**changes: object) -> LlamaEngine:
        options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
        engines.append(LlamaEngine(Model(demo_models.target), options))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.aclose()


def request_of(engine: LlamaEngine, text: str, **changes: object) -> GenerationRequest:
    request = GenerationRequest(
        prompt=tuple(engine.vocabulary.tokenize(text)), sampling=GREEDY, max_tokens=NUM_TOKENS
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def greedy(plain: PlainDecoder, engine: LlamaEngine, request: GenerationRequest) -> list[Plain]:
    return plain.greedy(request.prompt, request.max_tokens or 1, engine.vocabulary.is_end)


def grower_of(kind: str, truth: list[Plain], engine: LlamaEngine, seed: int = 0) -> Grower:
    return Grower(kind, [one.token for one in truth], len(engine.vocabulary), seed)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_drafted_answer_is_that_of_plain_decoding(
    shared: LlamaEngine, plain: PlainDecoder, kind: str
) -> None:
    num_compared = 0
    for seed, text in enumerate(PROMPTS[:2]):
        request = request_of(shared, text, drafted=True)
        truth = greedy(plain, shared, request)
        found = await answer(shared, request, grower_of(kind, truth, shared, seed))
        num_compared += assert_same(truth, found.tokens, f"{kind} {text[:10]!r}")
        assert found.steps[-1].finish == "length"
        if kind == "perfect":
            assert found.num_accepted > NUM_TOKENS // 2
            assert len(found.steps) < NUM_TOKENS // 2
        if kind == "adversarial":
            assert found.num_verified > NUM_TOKENS
            assert found.num_accepted < found.num_verified // 4
    assert num_compared > 0.8 * NUM_TOKENS * 2


async def test_concurrent_answers_are_each_as_alone(
    shared: LlamaEngine, plain: PlainDecoder
) -> None:
    requests = [request_of(shared, text, drafted=True) for text in (*PROMPTS, PROMPTS[0])]
    requests[1] = replace(requests[1], drafted=False)
    truths = [greedy(plain, shared, request) for request in requests]
    kinds = ("branchy", "", "noisy", "perfect", "branchy")
    rows_before = shared.num_rows
    answers = await asyncio.gather(
        *(
            answer(shared, request, grower_of(kind, truth, shared, 7) if kind else None)
            for request, truth, kind in zip(requests, truths, kinds, strict=True)
        )
    )
    for truth, found, kind in zip(truths, answers, kinds, strict=True):
        assert_same(truth, found.tokens, f"concurrent {kind}")
    assert max(step.num_rows for found in answers for step in found.steps) > 4
    assert shared.num_rows > rows_before
    assert not any(state.busy for state in shared.states())


async def test_logprobs_are_those_of_plain_decoding(
    shared: LlamaEngine, plain: PlainDecoder
) -> None:
    request = request_of(shared, PROMPTS[2], drafted=True, num_top_logprobs=2)
    truth = greedy(plain, shared, request)
    found = await answer(shared, request, grower_of("branchy", truth, shared))
    num_same = assert_same(truth, found.tokens, "logprobs")
    for wanted, got in zip(truth[:num_same], found.emitted, strict=False):
        assert got.logprob == pytest.approx(wanted.logprob, abs=0.03)
        assert got.top[0] == (got.token, got.logprob)
        assert got.top[0][1] - got.top[1][1] == pytest.approx(wanted.gap, abs=0.06)


async def test_a_seed_gives_the_same_answer_with_and_without_drafts(shared: LlamaEngine) -> None:
    sampling = SamplingParams(seed=1234, temperature=0.7, penalty_repeat=1.1)
    request = request_of(shared, PROMPTS[0], sampling=sampling)
    alone = await answer(shared, request)
    again = await answer(shared, request)
    assert again.tokens == alone.tokens
    truth = [Plain(token, -1, 9.0, 0.0) for token in alone.tokens]
    drafted = replace(request, drafted=True)
    found = await answer(shared, drafted, grower_of("branchy", truth, shared))
    assert found.tokens == alone.tokens
    assert found.num_accepted > 0


async def test_drafts_made_while_the_prompt_is_read_ride_in_the_first_pass(
    shared: LlamaEngine, plain: PlainDecoder
) -> None:
    request = request_of(shared, "Rain, rain, go away. " * 8, drafted=True)
    truth = greedy(plain, shared, request)
    found = await answer(shared, request, grower_of("perfect", truth, shared))
    assert_same(truth, found.tokens, "early drafts")
    assert len(found.steps[0].tokens) > 1


async def test_a_turn_reads_only_what_is_new_and_another_answer_shares_it(
    shared: LlamaEngine, plain: PlainDecoder
) -> None:
    first = request_of(shared, "Once upon a time in a far away land there was a small green frog")
    said = (await answer(shared, first)).tokens
    more = tuple(shared.vocabulary.tokenize(" And then"))
    second = replace(first, prompt=(*first.prompt, *said, *more), drafted=True)
    truth = greedy(plain, shared, second)
    turns = await asyncio.gather(
        *(answer(shared, second, grower_of("noisy", truth, shared, n)) for n in range(2))
    )
    for turn in turns:
        assert turn.num_cached >= len(first.prompt) + len(said) - 1
        assert_same(truth, turn.tokens, "second turn")
    uncached = await answer(shared, replace(second, cache_prompt=False, drafted=False))
    assert uncached.num_cached == 0
    assert_same(truth, uncached.tokens, "uncached turn")


async def test_a_long_prompt_does_not_stall_another_answer(
    make_engine: Callable[..., LlamaEngine], plain: PlainDecoder
) -> None:
    engine = make_engine(max_rows=64)
    short = request_of(engine, PROMPTS[3])
    long = request_of(engine, "The quick brown fox jumps over the lazy dog. " * 24, max_tokens=4)
    assert len(long.prompt) > 3 * 64
    running = engine.generate(short)
    steps = [await anext(running)]
    reading = spawn(answer(engine, long), name="read a long prompt")
    while not reading.done() and steps[-1].finish is None:
        steps.append(await anext(running))
    running.close()
    assert sum(step.num_rows > 1 for step in steps) >= 3
    found = await reading
    assert_same(greedy(plain, engine, long), found.tokens, "long prompt")


async def test_cancelled_answers_leave_nothing_behind(
    make_engine: Callable[..., LlamaEngine], plain: PlainDecoder
) -> None:
    engine = make_engine(context_tokens=256, num_places=3)
    dice = random.Random(3)
    requests = [request_of(engine, dice.choice(PROMPTS), drafted=True) for _ in range(8)]

    async def leave_early(number: int, request: GenerationRequest) -> Answered | None:
        truth = greedy(plain, engine, request)
        grower = grower_of(("branchy", "garbage")[number % 4 == 3], truth, engine, number)
        await asyncio.sleep(dice.random() * 0.3)
        task = answer(engine, request, grower, leave_after=dice.randrange(5))
        try:
            return await asyncio.wait_for(task, dice.random())
        except TimeoutError:
            return None

    await asyncio.gather(*(leave_early(*pair) for pair in enumerate(requests)))
    # Every cell but a few is needed: one that a lost branch or place still held would be missed.
    text = "All work and no play makes Jack a dull boy. " * 30
    full = request_of(engine, text)
    full = replace(full, prompt=full.prompt[:244], max_tokens=8)
    found = await answer(engine, full)
    assert_same(greedy(plain, engine, full), found.tokens, "after cancellations")
    assert not any(state.busy for state in engine.states())


async def test_a_closed_answer_is_generated_no_further(shared: LlamaEngine) -> None:
    emitted_before = shared.num_emitted
    generation = shared.generate(request_of(shared, PROMPTS[3], max_tokens=500))
    await anext(generation)
    generation.close()
    with pytest.raises(StopAsyncIteration):
        await anext(generation)
    await answer(shared, request_of(shared, PROMPTS[3], max_tokens=8))
    assert shared.num_emitted - emitted_before < 20
    assert not any(state.busy for state in shared.states())


async def test_an_answer_ends_where_the_context_does(
    make_engine: Callable[..., LlamaEngine],
) -> None:
    engine = make_engine(context_tokens=256)
    full = request_of(engine, "la " * 300, max_tokens=None)
    full = replace(full, prompt=full.prompt[:250])
    found = await answer(engine, full)
    assert found.steps[-1].finish == "length"
    assert len(found.tokens) == engine.num_context - 250
    with pytest.raises(RequestError, match="does not fit"):
        engine.generate(replace(full, prompt=full.prompt * 2))


async def test_when_cells_run_out_the_newest_answer_makes_room(
    make_engine: Callable[..., LlamaEngine], plain: PlainDecoder
) -> None:
    engine = make_engine(context_tokens=256, num_places=2)
    texts = ("A b c d e f g h i j k l m n o p. " * 8, "Nine ten eleven twelve. " * 20)
    older, newer = (
        replace(request_of(engine, text, max_tokens=24), prompt=engine_prompt(engine, text, 116))
        for text in texts
    )
    first, second = await asyncio.gather(answer(engine, older), answer(engine, newer))
    assert_same(greedy(plain, engine, older), first.tokens, "the older one")
    assert second.steps[-1].finish == "length"
    assert len(second.tokens) < 24
    assert_same(greedy(plain, engine, newer)[: len(second.tokens)], second.tokens, "the newer one")


def engine_prompt(engine: LlamaEngine, text: str, num_tokens: int) -> tuple[int, ...]:
    return tuple(engine.vocabulary.tokenize(text)[:num_tokens])


async def test_two_groups_answer_as_one(
    make_engine: Callable[..., LlamaEngine], plain: PlainDecoder
) -> None:
    engine = make_engine(groups=2, context_tokens=1024)
    requests = [request_of(engine, text, drafted=True) for text in PROMPTS]
    truths = [greedy(plain, engine, request) for request in requests]
    answers = await asyncio.gather(
        *(
            answer(engine, request, grower_of("noisy", truth, engine))
            for request, truth in zip(requests, truths, strict=True)
        )
    )
    for truth, found in zip(truths, answers, strict=True):
        assert_same(truth, found.tokens, "groups")
    assert [state.id for state in engine.states()] == list(range(4))
    assert all(state.num_tokens for state in engine.states())


async def read_on(generation: Generation) -> None:
    async for _ in generation:
        pass


async def test_a_dead_engine_fails_all_answers(make_engine: Callable[..., LlamaEngine]) -> None:
    engine = make_engine(num_places=2, context_tokens=512)
    request = request_of(engine, PROMPTS[0], max_tokens=400)
    generations = [engine.generate(request) for _ in range(3)]
    await anext(generations[0])
    engine.kill()
    for generation in generations:
        with pytest.raises(CoordinatorError, match="killed on request"):
            await read_on(generation)
    assert not engine.alive
    with pytest.raises(CoordinatorError):
        engine.generate(request)


async def test_a_closed_engine_fails_all_answers(make_engine: Callable[..., LlamaEngine]) -> None:
    engine = make_engine(num_places=2, context_tokens=512)
    generation = engine.generate(request_of(engine, PROMPTS[0], max_tokens=400))
    await anext(generation)
    await engine.aclose()
    with pytest.raises(CoordinatorError, match="closed"):
        await read_on(generation)
    await engine.aclose()


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": ()},
        {"prompt": (0, -1)},
        {"prompt": (10**6,)},
        {"max_tokens": 0},
        {"sampling": SamplingParams(grammar="root ::= (")},
    ],
)
async def test_what_cannot_be_generated_is_refused(
    shared: LlamaEngine, changes: dict[str, object]
) -> None:
    with pytest.raises(RequestError):
        shared.generate(request_of(shared, PROMPTS[0], **changes))


async def test_warming_makes_no_difference(
    make_engine: Callable[..., LlamaEngine], plain: PlainDecoder
) -> None:
    engine = make_engine(warm="always")
    request = request_of(engine, PROMPTS[1], drafted=True)
    truth = greedy(plain, engine, request)
    for kind in ("perfect", "branchy"):
        await asyncio.sleep(0.2)  # it warms
        found = await answer(engine, request, grower_of(kind, truth, engine))
        assert_same(truth, found.tokens, f"warm {kind}")


async def test_a_recurrent_model_answers_from_nothing_but_its_prompt(
    recurrent_model: Path,
) -> None:
    engine = LlamaEngine(Model(recurrent_model), OPTIONS)
    model = Model(recurrent_model)
    plain = PlainDecoder(model)
    header = (1, 2, 3, 4, 5)
    try:
        for end in (tuple(range(10, 50)), (8, 9), (30, 20, 31), (8, 9, 40)):
            request = GenerationRequest(prompt=(*header, *end), sampling=GREEDY, max_tokens=8)
            found = await answer(engine, request)
            assert_same(greedy(plain, engine, request), found.tokens, str(end))
    finally:
        await engine.aclose()
        plain.close()
        model.close()
