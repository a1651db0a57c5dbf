"""What an engine is, and what it gives: `coordinator.engine` is one, `testing` has another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from specproxy.core.drafts import GrownNode
from specproxy.core.sampling import SamplingParams
from specproxy.core.vocabulary import Vocabulary

Finish = Literal["stop", "length"]
"""`stop`: an end-of-generation token was chosen (it is the last one emitted); `length`: a limit."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to generate.

    Attributes:
        prompt: token ids, at least one, all of them in the vocabulary.
        max_tokens: emitted at most; None: as many as the context holds.
        num_top_logprobs: most probable tokens reported beside each emitted one; None: no
            logprobs at all, 0: that of the emitted token alone.
        cache_prompt: reuse what the KV cache holds of the prompt's beginning.
        drafted: somebody will grow the tree of this answer; without, every pass goes at once.
    """

    prompt: tuple[int, ...]
    sampling: SamplingParams
    max_tokens: int | None = None
    num_top_logprobs: int | None = None
    cache_prompt: bool = True
    drafted: bool = False


@dataclass(frozen=True, slots=True)
class Emitted:
    """A token of the answer.

    Attributes:
        logprob: natural log of its probability by softmax over the raw logits, before any
            sampler, as llama-server reports it; None where no logprobs were asked for.
        top: (token, logprob) of the most probable tokens, best first.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What one pass did for one answer.

    Attributes:
        tokens: emitted, in order; empty only in a last step with `length`, when the KV cache ran
            full of running answers.
        num_verified: drafted nodes of this answer that were in the pass.
        num_accepted: those of them that were emitted.
        num_rows: rows of the whole pass, other answers' included.
        duration_s: of the pass.
        waited_s: how long the answer had waited before it: for drafts, or for its turn.
        finish: why this is the last step; None: it is not.
        truncated: the context was full, for those who are told; None: to be seen from the limit.
    """

    tokens: tuple[Emitted, ...]
    num_verified: int = 0
    num_accepted: int = 0
    num_rows: int = 1
    duration_s: float = 0.0
    waited_s: float = 0.0
    finish: Finish | None = None
    truncated: bool | None = None


class Generation(Protocol):
    """An answer being generated. Iterate over its steps; close it in any case.

    Attributes:
        num_cached: prompt tokens that were in the cache; known from the first step on.
        prompt_s: time from the start until the prompt was read; known from the first step on.
    """

    num_cached: int
    prompt_s: float

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Step:
        """The next step.

        Raises:
            CoordinatorError: the engine is gone or failed; the answer cannot be completed.
        """
        ...

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        """Add drafted nodes to the tree. What does not fit any more is dropped silently."""
        ...

    def close(self) -> None:
        """Stop generating; the cache keeps what was read. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class SequenceState:
    """One place for an answer, as `/slots` shows it."""

    id: int
    busy: bool
    num_tokens: int
    num_emitted: int


class Engine(Protocol):
    """Generates answers, several at a time."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def model_name(self) -> str: ...

    @property
    def num_context(self) -> int:
        """KV cells, shared by all answers."""
        ...

    @property
    def num_context_trained(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    @property
    def num_passes(self) -> int:
        """Passes so far."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows of all passes so far: prompts, answers and drafted nodes."""
        ...

    def generate(self, request: GenerationRequest) -> Generation:
        """Begin an answer; more than there are places for wait in line.

        Raises:
            CoordinatorError: the engine is gone.
            RequestError: the prompt does not fit, or the grammar cannot be read into the context.
        """
        ...

    def states(self) -> list[SequenceState]:
        """All places for answers."""
        ...

    async def aclose(self) -> None:
        """Stop, ending running answers with CoordinatorError. Idempotent."""
        ...
