"""What a drafter is; `draft.engine` is one, `testing.drafter` another."""

from collections.abc import Callable, Sequence
from typing import Protocol

from specproxy.core.drafted import DraftToken
from specproxy.core.vocabulary import Vocabulary

OnToken = Callable[[DraftToken], None]
"""Told of each drafted token as soon as it is there, before the call returns."""


class DraftSequence(Protocol):
    """One conversation's place in the drafter. Used by one task at a time.

    Keeps KV for the longest common prefix between calls; rolls back by itself.
    """

    async def draft(
        self, tokens: Sequence[int], num_tokens: int, *, on_token: OnToken | None = None
    ) -> list[DraftToken]:
        """Greedy continuation of `tokens`.

        Args:
            tokens: the whole context, prompt included; at least one id. Of one that is longer than
                the drafter can hold, it reads the end.
            num_tokens: how many to draft at most; fewer come back after an end-of-generation
                token (which is the last one returned), at the context's end, or after `cut`;
                none where more sequences are open than there are KV rooms.
                0 only reads the context into the KV cache.
            on_token: called with each token on the caller's loop; never after the call ended.

        Raises:
            DraftUnavailable: the drafter is gone; do not call again.

        Cancelling the call abandons the work within one decode step.
        """
        ...

    def cut(self) -> None:
        """End a running `draft` call early: it returns what it has. No call: no effect."""
        ...

    def close(self) -> None:
        """Give the sequence back. Idempotent; a running call is abandoned."""
        ...


class Drafter(Protocol):
    """A draft model that serves several sequences at once."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def alive(self) -> bool:
        """False once the drafter failed for good."""
        ...

    @property
    def can_branch(self) -> bool:
        """Whether a sequence can go on from the middle of another's context. Where it cannot, as
        with recurrent models, it would read all of that anew."""
        ...

    def open(self, num_tokens: int | None = None) -> DraftSequence:
        """A sequence of its own. With more sequences than KV rooms, one whose cache others hold,
        too, gives it up; where there is none, `draft` returns nothing.

        Args:
            num_tokens: no id of so many or more is drafted: the target's vocabulary ends there.

        Raises:
            DraftUnavailable: the drafter is gone.
        """
        ...

    async def aclose(self) -> None:
        """Stop the drafter and free its memory. Idempotent."""
        ...
