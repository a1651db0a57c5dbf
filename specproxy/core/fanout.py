"""How long a fan-out round should be: what its rows cost, what its slots hold already.

A round asks the target for the token after `context + draft[:j]`, for j = 0..k, each in a slot of
its own. A slot keeps the prefix that it evaluated last, so a round evaluates what its prompts add
to that: about (m + 1) (k + 1) rows and k^2 / 2 more after a round that went m tokens on. Which slot
gets which prompt does not matter: all prefixes held are prefixes of all prompts, so the sum of what
is missing is the same.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

_NUM_REMEMBERED = 24
_SLOW = 1.5
"""A round that took so many times what its rows cost met a new shape."""
AMORTISED_ROUNDS = 16
"""What filling a slot costs counts as spread over so many rounds: it serves all that follow."""


class RoundCost:
    """Time of a round by the rows it evaluates: learned, by the median of all slopes (Theil-Sen),
    so that a first pass of a new shape, which is slow, is passed over.

    Attributes:
        shape_s: what a number of rows costs besides where the target has not run it before; 0
            until that was seen to matter.
    """

    def __init__(self) -> None:
        self.shape_s = 0.0
        self._known: set[int] = set()
        self._seen: deque[tuple[int, float]] = deque(maxlen=_NUM_REMEMBERED)
        self._base_s: float | None = None
        self._row_s = 0.0

    def __repr__(self) -> str:
        return f"<RoundCost base={self._base_s} row={self._row_s}>"

    @property
    def base_s(self) -> float | None:
        """Time of a round without rows; None before the first."""
        return self._base_s

    @property
    def row_s(self) -> float:
        """Time of a row more."""
        return self._row_s

    def affordable(self, num_context: int) -> int:
        """Slots to fill with a context in one round: one, and more while that does not double the
        round's time. So slots fill gradually, and no token waits long for it."""
        rows_s = self._row_s * num_context
        if self._base_s is None or not rows_s:
            return 1
        return max(1, int(self._base_s / rows_s))

    def seconds(self, num_rows: float) -> float | None:
        """What a round of `num_rows` takes; None before the first one was seen."""
        return None if self._base_s is None else self._base_s + self._row_s * num_rows

    def warmed(self, lengths: Iterable[int]) -> None:
        """The target has run passes of these numbers of rows."""
        self._known.update(lengths)

    def surcharge_s(self, num_rows: int) -> float:
        """What a round of `num_rows` costs besides, if that is new to the target."""
        return 0.0 if num_rows in self._known else self.shape_s

    def took(self, num_rows: int, duration_s: float) -> None:
        """A round of `num_rows` took `duration_s`."""
        expected_s = self.seconds(num_rows)
        if expected_s and num_rows not in self._known and len(self._seen) > 2:
            is_slow = duration_s > _SLOW * expected_s
            self.shape_s = duration_s - expected_s if is_slow else self.shape_s / 2
        self._known.add(num_rows)
        self._seen.append((num_rows, duration_s))
        slopes = [
            (later[1] - earlier[1]) / (later[0] - earlier[0])
            for earlier, later in combinations(self._seen, 2)
            if later[0] != earlier[0]
        ]
        self._row_s = max(0.0, statistics.median(slopes)) if slopes else 0.0
        rests = [seconds - self._row_s * rows for rows, seconds in self._seen]
        self._base_s = max(1e-4, statistics.median(rests))


class HeldPrefixes:
    """Lengths of the context that slots hold, as far as this answer has put it there.

    Args:
        num_slots: that this answer may use.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._lengths: list[int] = []

    def __repr__(self) -> str:
        return f"<HeldPrefixes {self._lengths} of {self.num_slots}>"

    @property
    def num_warm(self) -> int:
        """Slots that hold anything of it."""
        return len(self._lengths)

    def rows(self, num_context: int, num_drafted: int) -> float:
        """Rows that a round of `num_drafted` tokens after `num_context` evaluates; those that fill
        a slot for the first time are spread over the rounds to come."""
        adding, filling = self._parts(num_context, num_drafted)
        return adding + filling / AMORTISED_ROUNDS

    def evaluated(self, num_context: int, num_drafted: int) -> int:
        """Rows that such a round evaluates, those that fill a slot for the first time included."""
        return sum(self._parts(num_context, num_drafted))

    def _parts(self, num_context: int, num_drafted: int) -> tuple[int, int]:
        """Rows that add to what slots hold, and rows that fill slots for the first time."""
        used = self._lengths[: num_drafted + 1]
        missing = sum(num_context - min(length, num_context - 1) for length in used)
        cold = num_drafted + 1 - len(used)
        return missing + num_drafted * (num_drafted + 1) // 2, cold * num_context

    def placed(self, num_context: int, num_drafted: int, num_accepted: int) -> None:
        """Such a round was run, and so many of its drafted tokens were right."""
        placed = [num_context + min(one, num_accepted) for one in range(num_drafted + 1)]
        kept = self._lengths[num_drafted + 1 :]
        self._lengths = sorted([*placed, *kept], reverse=True)[: self.num_slots]


def choose_block(
    acceptances: Sequence[float],
    num_ready: int,
    token_s: float | None,
    round_s: Callable[[int], float | None],
) -> int:
    """How many drafted tokens the next round should carry: most tokens per second.

    Args:
        acceptances: of the next tokens, drafted or not; as many as there may be at most.
        num_ready: those of them that are drafted.
        token_s: the draft's time for one more; None: not known yet.
        round_s: time of a round that carries so many.
    """
    best, best_rate = 0, 0.0
    expected, reach = 1.0, 1.0
    for num_drafted in range(len(acceptances) + 1):
        if num_drafted:
            reach *= acceptances[num_drafted - 1]
            expected += reach
        seconds = round_s(num_drafted)
        if seconds is None:
            return min(num_ready, len(acceptances))
        waited_s = max(0, num_drafted - num_ready) * (token_s or 0.0)
        rate = expected / (seconds + waited_s)
        if rate > best_rate:
            best, best_rate = num_drafted, rate
    return best


def kept(drafted: Sequence[int], said: Sequence[int]) -> int:
    """How many of `drafted` the target agrees with: `said[j]` is its token after `drafted[:j]`."""
    for count, token in enumerate(drafted):
        if said[count] != token:
            return count
    return len(drafted)
