"""What to put into the next seed: runs of drafted tokens, packed into one short prompt.

A seed is a prompt; once the target has read it, every `n_match` of its tokens in a row predict
the next one in the pool. The seed slot keeps its prefix cache, so a prompt that extends what the
slot holds costs only its new tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specproxy.core.tree import Run, SeedState

LEAST_CUT = 4
"""Tokens of a line that are worth another key before them."""


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """A composed seed.

    Attributes:
        prompt: token ids to send, shape (n,), n >= 1.
        num_new: how many of them the slot must evaluate.
        runs: what the prompt carries.
    """

    prompt: tuple[int, ...]
    num_new: int
    runs: tuple[Run, ...]

    @property
    def void(self) -> bool:
        """Nothing that it carries can still help."""
        return all(run.void for run in self.runs)

    def mark(self, state: SeedState) -> None:
        """All that the seed carries is in `state` now."""
        for run in self.runs:
            run.mark(state)


class SeedSlot:
    """What the seed slot's prefix cache holds, and how to extend it.

    Args:
        max_tokens: beyond this length a prompt starts afresh from its key, so that the slot's
            share of the KV cache stays small.
    """

    def __init__(self, *, max_tokens: int = 256) -> None:
        self._content: list[int] = []
        self._max_tokens = max_tokens

    def __len__(self) -> int:
        """Number of tokens it holds."""
        return len(self._content)

    def __repr__(self) -> str:
        return f"<SeedSlot content={len(self._content)}>"

    def compose(self, runs: Iterable[Run], budget: int) -> Seed | None:
        """Pack `runs`, most wanted first, into one prompt of at most `budget` new tokens.

        Main lines are cut to fit, their rest rides in a later seed; branches are taken while they
        fit whole.
        """
        prompt: list[int] = []
        num_held = 0
        carried: list[Run] = []
        for run in runs:
            if not carried:
                prompt, num_held = ([], 0) if run.branches else self._prefix(run.context)
            lead = _lead(prompt, run)
            room = budget - (len(prompt) - num_held) - len(lead)
            if not carried or (not run.branches and room >= LEAST_CUT):
                run = run.cut(max(0, room))
            if not run.nodes or len(run.nodes) > room:
                continue
            prompt += [*lead, *run.tokens]
            carried.append(run)
        if not carried:
            return None
        return Seed(tuple(prompt), len(prompt) - num_held, tuple(carried))

    def commit(self, seed: Seed) -> None:
        """The target has read `seed`: its prompt is what the slot holds now."""
        self._content = list(seed.prompt)

    def forget(self) -> None:
        """The slot's content is unknown (failure, restart, a user's request in it)."""
        self._content = []

    def _prefix(self, context: Sequence[int]) -> tuple[list[int], int]:
        """The longest use of what the slot holds: a beginning of it that ends as `context`
        begins, so that the fewest tokens are new; and its length."""
        for num_shared in range(len(context), 0, -1):
            shared = list(context[:num_shared])
            for end in range(len(self._content), num_shared - 1, -1):
                if self._content[end - num_shared : end] == shared:
                    if end > self._max_tokens:
                        return [], 0
                    return self._content[:end], end
        return [], 0


def _lead(prompt: Sequence[int], run: Run) -> list[int]:
    """What must stand between `prompt` and the run's nodes."""
    context = list(run.context)
    if run.barred is not None:
        # never the whole key: it would make the branch's token the successor of the key
        if not prompt or prompt[-1] != run.barred:
            return context
        others = (token for token in (*context, *run.tokens, 0, 1) if token != run.barred)
        return [next(others), *context]
    for num_shared in range(min(len(context), len(prompt)), 0, -1):
        if list(prompt[-num_shared:]) == context[:num_shared]:
            return context[num_shared:]
    return context
