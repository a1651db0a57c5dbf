"""When a pass that is ours should leave: at once with what is drafted, or once there is more.

After a miss nothing is drafted. A pass that leaves at once confirms one token, but the draft works
on meanwhile; one that waits carries a block. Whoever looks two passes ahead sees both: with `k`
nodes awaited, the first pass carries `k` of them, the second all that was drafted meanwhile.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

_SMOOTHING = 0.2


class DraftPace:
    """Time that a drafted token takes, smoothed; what it is told are durations in seconds."""

    def __init__(self) -> None:
        self.token_s: float | None = None

    def __repr__(self) -> str:
        return f"<DraftPace {self.token_s}>"

    def drafted(self, num_tokens: int, duration_s: float) -> None:
        """`num_tokens` in a row took `duration_s`."""
        if num_tokens:
            measured_s = duration_s / num_tokens
            known_s = self.token_s
            self.token_s = (
                measured_s if known_s is None else known_s + _SMOOTHING * (measured_s - known_s)
            )


class PassPace:
    """Time of a pass, smoothed, told apart from the slow first pass of a new shape."""

    def __init__(self) -> None:
        self.pass_s: float | None = None

    def __repr__(self) -> str:
        return f"<PassPace {self.pass_s}>"

    def passed(self, duration_s: float) -> None:
        """A pass took `duration_s`."""
        known_s = self.pass_s
        if known_s is None:
            self.pass_s = duration_s
        elif duration_s < 2 * known_s:
            self.pass_s = known_s + _SMOOTHING * (duration_s - known_s)
        else:  # slower links exist, too: follow, but slowly
            self.pass_s = 1.05 * known_s


@lru_cache(maxsize=64)  # asked for each drafted token; the answer changes with the pass
def nodes_to_await(
    token_s: float | None, pass_s: float | None, acceptance: float, lookahead: int
) -> int:
    """How many drafted nodes a pass after a miss should wait for.

    Args:
        token_s: the draft's time per token, which goes on during passes.
        pass_s: time of a pass.
        acceptance: of a drafted token, on average.
        lookahead: nodes ahead of the target that the draft may be at most.

    Returns:
        0..lookahead; 0 while nothing is known.
    """
    if not token_s or not pass_s:
        return 0
    confirmed = [0.0, *accumulate(_powers(acceptance, 2 * lookahead))]
    during = int(pass_s / token_s)

    def rate(awaited: int) -> float:
        second = min(awaited + during, awaited + lookahead, len(confirmed) - 1)
        return (2 + confirmed[second]) / (awaited * token_s + 2 * pass_s)

    return max(range(lookahead + 1), key=rate)


def _powers(base: float, count: int) -> Sequence[float]:
    return [base**power for power in range(1, count + 1)]
