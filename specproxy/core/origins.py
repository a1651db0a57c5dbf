"""Where each token of an answer came from, as the page colours it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

NUM_KEPT = 512
"""Tokens of a running answer that are kept to be shown."""


class Origin(Enum):
    """How the draft stood to a token that the target said."""

    LINE = "line"
    """As drafted."""
    BRANCH = "branch"
    """The draft's other choice, which was drafted, too."""
    POOL = "pool"
    """Proposed by the target's own n-gram pool where the draft had nothing, or was wrong."""
    MISSED = "missed"
    """Something else than was drafted."""
    UNDRAFTED = "undrafted"
    """No draft was there in time."""


@dataclass(slots=True)
class SaidTokens:
    """The last tokens of one answer, with their origins. Bounded."""

    num_tokens: int = 0
    _kept: deque[tuple[int, Origin]] = field(default_factory=lambda: deque(maxlen=NUM_KEPT))

    def add(self, token: int, origin: Origin) -> None:
        self.num_tokens += 1
        self._kept.append((token, origin))

    def correct(self, origin: Origin) -> None:
        """The last token's origin was another."""
        self._kept[-1] = (self._kept[-1][0], origin)

    @property
    def num_dropped(self) -> int:
        """Tokens before those that are kept."""
        return self.num_tokens - len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, Origin]]:
        return iter(self._kept)
