"""A real drafter on the shipped model, and the plain loop that it must equal."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from specproxy.core.drafted import DraftToken
from specproxy.core.tasks import spawn
from specproxy.draft.choice import Chooser
from specproxy.draft.engine import LlamaDrafter, LlamaSequence
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.models import DemoModels

Greedy = Callable[[Sequence[int], int], list[DraftToken]]
# Two tokens this close (as a ratio of probabilities) may change places with the batch's shape.
TIE_RATIO = 1.1


def _assert_same(expected: list[DraftToken], found: list[DraftToken], what: str = "") -> None:
    for index, (wanted, got) in enumerate(zip(expected, found, strict=False)):
        if wanted.token == got.token:
            assert got.probability == pytest.approx(wanted.probability, abs=0.05)
            continue
        runner_up = wanted.alternatives[0]
        assert runner_up[0] == got.token, f"{what} differs at {index}"
        assert wanted.probability / runner_up[1] < TIE_RATIO, f"{what} differs at {index}"
        print(f"tie: {what} at {index}: {wanted} against {got}")
        return
    assert len(expected) == len(found)


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Drafts are equal up to a near-tie, which is reported."""
    return _assert_same


@pytest.fixture(scope="session")
def prompts() -> tuple[str, ...]:
    return (
        "The village lay by the sea, and every morning the fishermen",
        "def fibonacci(n):\n    if n < 2:\n        return n\n",
        "Water boils at a hundred degrees. Ice melts at",
        "1, 2, 3, 4, 5, 6, 7,",
    )


class Call:
    """A `draft` call in a task of its own, and what it has told so far."""

    def __init__(self, sequence: LlamaSequence, tokens: list[int], num_tokens: int) -> None:
        self.sequence = sequence
        self.told: list[DraftToken] = []
        self._event = asyncio.Event()
        self.task = spawn(sequence.draft(tokens, num_tokens, on_token=self._hear), name="draft")

    def _hear(self, token: DraftToken) -> None:
        self.told.append(token)
        self._event.set()

    async def heard(self, num_tokens: int) -> None:
        while len(self.told) < num_tokens:
            self._event.clear()
            await self._event.wait()


@pytest.fixture(scope="session")
def call() -> type[Call]:
    return Call


@pytest.fixture(scope="session")
def draft_model_path(demo_models: DemoModels) -> Path:
    return demo_models.draft


@pytest.fixture(scope="session")
def model(draft_model_path: Path) -> Iterator[Model]:
    loaded = Model(draft_model_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def vocabulary(model: Model) -> ModelVocabulary:
    return ModelVocabulary(model)


@pytest.fixture(scope="session")
def plain_greedy(model: Model, vocabulary: ModelVocabulary) -> Iterator[Greedy]:
    """One token at a time on a context of its own: no batch, no cache kept between calls."""
    context = Context(model, num_tokens=1024)
    chooser = Chooser(len(vocabulary), 3)

    def greedy(tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        context.seq_rm(0)
        batch = Batch(1)
        drafted: list[DraftToken] = []
        todo = list(tokens)
        for position in range(len(tokens) + num_tokens - 1):
            batch.clear()
            batch.add(todo[position], position, (0,), wants_logits=True)
            assert context.decode(batch)
            if position + 1 >= len(tokens):
                drafted.append(chooser.choose(context.logits(0)))
                todo.append(drafted[-1].token)
                if vocabulary.is_end(todo[-1]):
                    break
        return drafted

    yield greedy
    context.close()


@pytest.fixture(scope="module")
def shared_drafter(draft_model_path: Path) -> Iterator[LlamaDrafter]:
    """For tests that leave it as they found it, but for cached tokens."""
    drafter = LlamaDrafter(draft_model_path, num_sequences=4, context_tokens=2048)
    yield drafter
    drafter.close()
