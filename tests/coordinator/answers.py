"""Answers for tests of pure parts: no model, no loop."""

from collections.abc import Sequence

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.generation import GenerationRequest, Step
from specproxy.coordinator.walk import Logits
from specproxy.core.drafts import GrownNode
from specproxy.core.rooms import Room
from specproxy.core.sampling import SamplingParams
from specproxy.core.verify_tree import VerifyTree

NUM_VOCABULARY = 100


class NoSampler:
    def choose(self, logits: Logits) -> int:
        raise NotImplementedError

    def accept(self, token: int) -> None: ...

    def prime(self, tokens: Sequence[int]) -> None: ...

    def close(self) -> None: ...


class NoOutlet:
    def begin(self, num_cached: int, prompt_s: float) -> None: ...

    def emit(self, step: Step) -> None: ...

    def fail(self, error: Exception) -> None: ...


def make_answer(
    key: int = 0,
    *,
    num_prompt: int = 10,
    num_read: int | None = None,
    num_emitted: int = 1,
    budget: int = 100,
    drafted: bool = True,
    waiting_since_s: float = 0.0,
) -> Answer:
    """An answer in a place that has read all but the last token, unless `num_read` is given."""
    tokens = [1] * num_prompt
    num_read = num_prompt - 1 if num_read is None else num_read
    return Answer(
        key=key,
        request=GenerationRequest(tuple(tokens), SamplingParams(), drafted=drafted),
        sampler=NoSampler(),
        outlet=NoOutlet(),
        tree=VerifyTree(tokens, num_vocabulary=NUM_VOCABULARY),
        max_tokens=num_prompt + budget,
        began_s=0.0,
        waiting_since_s=waiting_since_s,
        place=Room(key, tokens[:num_read]),
        num_emitted=num_emitted,
    )


def grow_chain(answer: Answer, length: int, acceptance: float, *, token: int = 5) -> None:
    """A line of nodes below the last confirmed token."""
    start = len(answer.tree.tokens)
    first = token * 1000
    nodes = [
        GrownNode(first + i, first + i - 1 if i else None, start + i, token, acceptance)
        for i in range(length)
    ]
    answer.grow(nodes, answer.go_at)
