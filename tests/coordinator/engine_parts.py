"""What the engine's tests share: plain decoding to compare with, and growers good and bad."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from specproxy.coordinator.engine import LlamaEngine
from specproxy.coordinator.generation import Emitted, Generation, GenerationRequest, Step
from specproxy.core.drafts import GrownNode
from specproxy.core.sampling import SamplingParams
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model

GREEDY = SamplingParams(temperature=0.0)
# Logits this close may change places with the shape of a batch.
TIE_GAP = 0.1
DEPTH = 6


@dataclass(frozen=True)
class Plain:
    """One greedy token of plain decoding, the runner-up, and by how much it was ahead."""

    token: int
    runner_up: int
    gap: float
    logprob: float


class PlainDecoder:
    """One token at a time on a context of its own: no tree, no shared cache."""

    def __init__(self, model: Model, num_tokens: int = 1024) -> None:
        self._context = Context(model, num_tokens=num_tokens)
        self._known: dict[tuple[tuple[int, ...], int], list[Plain]] = {}

    def close(self) -> None:
        self._context.close()

    def greedy(
        self, prompt: Sequence[int], num_tokens: int, is_end: Callable[[int], bool]
    ) -> list[Plain]:
        key = (tuple(prompt), num_tokens)
        if key not in self._known:
            self._known[key] = list(self._decode(prompt, num_tokens, is_end))
        return self._known[key]

    def _decode(
        self, prompt: Sequence[int], num_tokens: int, is_end: Callable[[int], bool]
    ) -> Iterator[Plain]:
        self._context.seq_rm(0)
        batch = Batch(512)
        pending, position = list(prompt), 0
        for _ in range(num_tokens):
            batch.clear()
            row = batch.extend(pending, position, 0, wants_last_logits=True)
            assert self._context.decode(batch)
            position += len(pending)
            logits = self._context.logits(row).astype(np.float64)
            best, second = (int(one) for one in np.argsort(-logits, kind="stable")[:2])
            log_sum = logits.max() + np.log(np.exp(logits - logits.max()).sum())
            gap = float(logits[best] - logits[second])
            yield Plain(best, second, gap, float(logits[best] - log_sum))
            if is_end(best):
                return
            pending = [best]


Level = list[tuple[int, float]]
"""Tokens for one position with their acceptances; the last one's line goes on below it."""


@dataclass
class Grower:
    """Drafts for an answer whose true continuation it knows.

    Attributes:
        kind: `perfect`, `noisy`, `adversarial` (sure of wrong tokens), `branchy` (the true token
            is one of several, each with children), or `garbage`.
    """

    kind: str
    truth: Sequence[int]
    num_vocabulary: int
    seed: int = 0
    go_at: int = 3
    _next_id: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def nodes(self, num_prompt: int, num_emitted: int) -> list[GrownNode]:
        """Nodes below the last of the tokens emitted so far."""
        if self.kind == "garbage":
            return [self._garbage(num_prompt + num_emitted) for _ in range(20)]
        nodes: list[GrownNode] = []
        parent: int | None = None
        for offset in range(DEPTH):
            if num_emitted + offset >= len(self.truth):
                break
            position = num_prompt + num_emitted + offset
            for token, acceptance in self._level(self.truth[num_emitted + offset]):
                nodes.append(self._node(parent, position, token, acceptance))
                if self.kind == "branchy":  # what might follow the wrong ones
                    last = nodes[-1].id
                    nodes.append(self._node(last, position + 1, self._wrong(), acceptance))
            parent = nodes[-1].id if self.kind != "branchy" else nodes[-2].id
        return nodes

    def _level(self, right: int) -> Level:
        match self.kind:
            case "perfect":
                return [(right, 0.95)]
            case "noisy":
                return [(right if self._random.random() < 0.7 else self._wrong(), 0.9)]
            case "adversarial":
                return [(self._wrong(), 0.99)]
            case _:
                wrong = [(self._wrong(), self._random.random()) for _ in range(2)]
                return [*wrong, (right, 0.6)]

    def _wrong(self) -> int:
        return self._random.randrange(self.num_vocabulary)

    def _node(self, parent: int | None, position: int, token: int, acceptance: float) -> GrownNode:
        self._next_id += 1
        return GrownNode(self._next_id, parent, position, token, acceptance)

    def _garbage(self, position: int) -> GrownNode:
        pick = self._random.choice
        return GrownNode(
            pick([self._random.randrange(100), -5, 10**30]),
            pick([None, None, self._random.randrange(100)]),
            position + pick([-2, 0, 0, 0, 1, 2, 10**9]),
            pick([self._random.randrange(self.num_vocabulary), -1, 10**9]),
            pick([0.5, 1.0, -1.0, 99.0]),
        )


@dataclass
class Answered:
    """What an answer came to."""

    steps: list[Step]
    num_cached: int

    @property
    def emitted(self) -> list[Emitted]:
        return [emitted for step in self.steps for emitted in step.tokens]

    @property
    def tokens(self) -> list[int]:
        return [emitted.token for emitted in self.emitted]

    @property
    def num_accepted(self) -> int:
        return sum(step.num_accepted for step in self.steps)

    @property
    def num_verified(self) -> int:
        return sum(step.num_verified for step in self.steps)


async def answer(
    engine: LlamaEngine,
    request: GenerationRequest,
    grower: Grower | None = None,
    *,
    leave_after: int | None = None,
) -> Answered:
    """Read an answer to its end, growing its tree; or leave after some steps."""
    generation: Generation = engine.generate(request)
    steps: list[Step] = []
    num_emitted = 0
    try:
        while grower is not None or not steps or steps[-1].finish is None:
            if grower is not None:
                generation.grow(grower.nodes(len(request.prompt), num_emitted), grower.go_at)
            if leave_after is not None and len(steps) >= leave_after:
                break
            try:
                steps.append(await anext(generation))
            except StopAsyncIteration:
                break
            num_emitted += len(steps[-1].tokens)
    finally:
        generation.close()
    return Answered(steps, generation.num_cached)


def assert_same(plain: Sequence[Plain], tokens: Sequence[int], what: str) -> int:
    """Equal up to a near-tie, which is reported. Returns how many tokens were compared."""
    for index, (wanted, got) in enumerate(zip(plain, tokens, strict=False)):
        if wanted.token != got:
            assert got == wanted.runner_up, f"{what} differs at {index}"
            assert wanted.gap < TIE_GAP, f"{what} differs at {index}, gap {wanted.gap:.3f}"
            print(f"tie: {what} at {index}, gap {wanted.gap:.3f}")
            return index
    assert len(plain) == len(tokens), what
    return len(tokens)
