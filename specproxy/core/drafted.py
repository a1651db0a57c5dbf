"""One drafted token: what the drafter hands to the tree."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftToken:
    """A drafted token and what the draft model thought of it.

    Attributes:
        token: the draft's first choice.
        probability: its probability under the draft's softmax, 0..1.
        alternatives: next best (token, probability), most probable first; may be empty.
    """

    token: int
    probability: float = 1.0
    alternatives: tuple[tuple[int, float], ...] = ()
