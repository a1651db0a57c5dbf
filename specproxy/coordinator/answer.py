"""One answer in the engine: what it has, what it waits for, where it works.

Invariant: belongs to its group's thread from the moment it is sent there. What its place has in
the KV cache is always a beginning of its tree's confirmed tokens; the rest of them is pending, at
least the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specproxy.coordinator.generation import Finish, GenerationRequest, Step
from specproxy.coordinator.walk import Logits
from specproxy.core.drafts import GrownNode
from specproxy.core.rooms import Room
from specproxy.core.verify_tree import VerifyTree

_LEAST_RECOVERED = 0.125


class AnswerSampler(Protocol):
    """Chooses the tokens; `llama.sampler.Sampler` is one."""

    def choose(self, logits: Logits) -> int: ...

    def accept(self, token: int) -> None: ...

    def prime(self, tokens: Sequence[int]) -> None: ...

    def close(self) -> None: ...


class Outlet(Protocol):
    """Where the steps go; called from the group's thread."""

    def begin(self, num_cached: int, prompt_s: float) -> None:
        """The prompt is read; comes before the first step."""
        ...

    def emit(self, step: Step) -> None: ...

    def fail(self, error: Exception) -> None: ...


@dataclass(eq=False, slots=True)
class Answer:
    """An answer being generated.

    Attributes:
        key: the engine's number for it, ascending: the newest has the highest.
        max_tokens: of prompt and answer together.
        began_s: when it was asked for.
        waiting_since_s: when it came, or when the last pass that it was in ended.
        ready_s: since when the tree is deep enough to go; None: it is not.
        go_at: nodes that the longest path shall have before the next pass.
        patience: share of a plain pass that it waits for them; see `check_ready`.
    """

    key: int
    request: GenerationRequest
    sampler: AnswerSampler
    outlet: Outlet
    tree: VerifyTree
    max_tokens: int
    began_s: float
    waiting_since_s: float
    ready_s: float | None = None
    go_at: int = 0
    patience: float = 1.0
    place: Room | None = None
    num_cached: int = 0
    num_emitted: int = 0
    finish: Finish | None = field(default=None)

    def __repr__(self) -> str:
        state = "waits for a place" if self.place is None else f"{self.num_pending} pending"
        return f"<Answer {self.key}: {state}, {self.num_emitted} emitted>"

    @property
    def room(self) -> Room:
        """Its place.

        Raises:
            RuntimeError: it has none yet.
        """
        if self.place is None:
            raise RuntimeError(f"{self!r} has no place")
        return self.place

    @property
    def num_pending(self) -> int:
        """Confirmed tokens that are not in the cache yet."""
        return len(self.tree.tokens) - len(self.room.tokens)

    @property
    def is_reading(self) -> bool:
        """The prompt is not read yet."""
        return self.num_emitted == 0

    @property
    def budget(self) -> int:
        """Tokens that may still be emitted."""
        return self.max_tokens - len(self.tree.tokens)

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        """What was drafted; see `core.drafts.Grow`."""
        self.tree.grow(nodes)
        self.go_at = go_at

    def deadline_s(self, wait_s: float) -> float:
        """When it goes with whatever has been drafted; `wait_s`: the time of a plain pass."""
        return self.waiting_since_s + self.patience * wait_s

    def check_ready(self, now_s: float, wait_s: float) -> bool:
        """Whether it needs no more drafts before its next pass, or has waited long enough.

        Each time in vain halves its patience, each time the drafts are there doubles it: a drafter
        that is dead or always late costs two plain passes in all.
        """
        if self.ready_s is None:
            if not self.request.drafted or self.is_reading:
                self.ready_s = self.waiting_since_s
            elif self.tree.longest >= min(self.go_at, self.budget - 1):
                self.ready_s = now_s
                self.patience = min(1.0, max(2 * self.patience, _LEAST_RECOVERED))
            elif now_s >= self.deadline_s(wait_s):
                self.ready_s = now_s
                self.patience /= 2
        return self.ready_s is not None

    def passed(self, now_s: float) -> None:
        """A pass that it was in ended."""
        self.waiting_since_s = now_s
        self.ready_s = None
