"""When the next pass leaves. Pure; times are passed in.

A pass takes every answer along, whatever it has: each gets one token at least, and for one that is
left behind the pass would be lost time. So the only question is how long to wait for drafts.
"""

from collections.abc import Iterable

from specproxy.coordinator.answer import Answer
from specproxy.core.cost import PassCost


def departure_s(answers: Iterable[Answer], now_s: float, cost: PassCost) -> float:
    """When to leave unless something comes in before; `now_s` or earlier: at once.

    A prompt is read without waiting. Else all answers shall be ready, but the first that is waits
    a small share of a pass for the others, and each waits for its drafts until its deadline.
    Without answers: infinity.
    """
    ready_s: list[float] = []
    deadlines_s: list[float] = []
    for answer in answers:
        if answer.is_reading:
            return now_s
        if answer.check_ready(now_s, cost.wait_s):
            ready_s.append(now_s if answer.ready_s is None else answer.ready_s)
        else:
            deadlines_s.append(answer.deadline_s(cost.wait_s))
    if ready_s and not deadlines_s:
        return now_s
    gathered_s = [min(ready_s) + cost.gather_s] if ready_s else []
    return min([*gathered_s, *deadlines_s], default=float("inf"))
