"""A drafter as one target may use it: no id is drafted that the target does not have.

Invariant: routes that share a drafter do not limit each other.
"""

from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.protocol import Drafter, DraftSequence


class LimitedDrafter:
    """Implements `Drafter`.

    Args:
        drafter: the model, perhaps of several targets.
        num_tokens: ids that both it and this target have.
    """

    def __init__(self, drafter: Drafter, num_tokens: int) -> None:
        self._drafter = drafter
        self._num_tokens = num_tokens

    def __repr__(self) -> str:
        return f"<LimitedDrafter {self._num_tokens} of {self._drafter!r}>"

    @property
    def vocabulary(self) -> Vocabulary:
        return self._drafter.vocabulary

    @property
    def alive(self) -> bool:
        return self._drafter.alive

    @property
    def can_branch(self) -> bool:
        return self._drafter.can_branch

    def open(self, num_tokens: int | None = None) -> DraftSequence:
        least = self._num_tokens if num_tokens is None else min(num_tokens, self._num_tokens)
        return self._drafter.open(least)

    async def aclose(self) -> None:
        await self._drafter.aclose()
