"""What to put into the next seed: runs of drafted tokens, packed into one short prompt.

A seed is a prompt; once the target has read it, every `n_match` of its tokens in a row predict
the next one in the pool. The seed slot keeps its prefix cache, so a prompt that extends what the
slot holds costs only its new tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specproxy.core.tree import Run, SeedState


@dataclass(frozen=True, slots=True)
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

    def __repr__(self) -> str:
        return f"<SeedSlot content={len(self._content)}>"

    def compose(self, runs: Iterable[Run], budget: int) -> Seed | None:
        """Pack `runs`, most wanted first, into one prompt of at most `budget` new tokens.

        The first run is cut to fit; later ones are taken while they fit whole.
        """
        prompt: list[int] | None = None
        carried: list[Run] = []
        for run in runs:
            if not run.nodes:
                continue
            if prompt is None:
                prompt, start = self._prefix(run.context)
                room = budget - (len(prompt) - start)
                if room < 1:
                    return None
                run = run.cut(room)
                prompt += run.tokens
            else:
                addition = _joined(prompt, run)
                if len(prompt) - start + len(addition) > budget:
                    continue
                prompt += addition
            carried.append(run)
        if prompt is None:
            return None
        return Seed(tuple(prompt), len(prompt) - start, tuple(carried))

    def commit(self, seed: Seed) -> None:
        """The target has read `seed`: its prompt is what the slot holds now."""
        self._content = list(seed.prompt)

    def forget(self) -> None:
        """The slot's content is unknown (failure, restart, a user's request in it)."""
        self._content = []

    def _prefix(self, context: Sequence[int]) -> tuple[list[int], int]:
        """A prompt that ends with `context`, and how much of it the slot already holds."""
        key = list(context)
        for end in range(len(self._content), len(key) - 1, -1):
            if self._content[end - len(key) : end] == key and key:
                if end > self._max_tokens:
                    break
                return self._content[:end], end
        return key, 0


def _joined(prompt: list[int], run: Run) -> list[int]:
    """What to append so that `run` stands behind its context at the prompt's end."""
    context = list(run.context)
    if context and prompt[-len(context) :] == context:
        return list(run.tokens)
    return context + list(run.tokens)
