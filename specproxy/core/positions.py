"""Acceptance by position: how often the target agrees with the first, second, ... drafted token
after the start of a pass."""

from collections.abc import Sequence

NUM_POSITIONS = 24
"""Later positions count as the last one."""


class Positions:
    """Drafted tokens that were confirmed, and those that were decided, by position."""

    def __init__(self) -> None:
        self.confirmed = [0] * NUM_POSITIONS
        self.decided = [0] * NUM_POSITIONS

    def __repr__(self) -> str:
        return f"<Positions {sum(self.confirmed)}/{sum(self.decided)}>"

    def count(self, position: int, *, confirmed: bool) -> None:
        """The target decided on the drafted token at `position` (from 0)."""
        index = min(position, NUM_POSITIONS - 1)
        self.decided[index] += 1
        self.confirmed[index] += confirmed

    def as_json(self) -> Sequence[Sequence[int]]:
        """[confirmed, decided] by position, as far as there are any; also for a file."""
        pairs = [list(pair) for pair in zip(self.confirmed, self.decided, strict=True)]
        while pairs and not pairs[-1][1]:
            pairs.pop()
        return pairs

    def restore(self, saved: object) -> None:
        """Put back what `as_json` gave.

        Raises:
            ValueError: it did not.
        """
        if not isinstance(saved, list) or len(saved) > NUM_POSITIONS:
            raise ValueError("no positions")
        restored = Positions()
        for index, pair in enumerate(saved):
            match pair:
                case [int(confirmed), int(decided)] if 0 <= confirmed <= decided < 10**15:
                    restored.confirmed[index], restored.decided[index] = confirmed, decided
                case _:
                    raise ValueError("no position")
        self.confirmed, self.decided = restored.confirmed, restored.decided
