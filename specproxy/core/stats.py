"""Acceptance and speed of one route, from the target's own counts and from the proxy's."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from specproxy.core.tree import Advance


@dataclass(slots=True)
class DraftCounts:
    """Tokens of one answer (or of many, added up) by what became of them.

    Attributes:
        num_drafted: the draft model produced them and the tree took them.
        num_seeded: sent to the target: into its pool, or into a coordinator's tree.
        num_confirmed: the target said them as drafted, branches included.
        num_pooled: those confirmed whose seed had arrived in time.
        num_branched: those confirmed on a branch.
        num_missed: the target said something else where a draft was.
        num_undrafted: the target was ahead of the draft.
        num_proposed: the target's own count of tokens that it verified (`draft_n`).
        num_accepted: those it accepted (`draft_n_accepted`).
        num_generated: tokens of the answers, as the target counts them.
        num_answers: answers that were followed to their end.
    """

    num_drafted: int = 0
    num_seeded: int = 0
    num_confirmed: int = 0
    num_pooled: int = 0
    num_branched: int = 0
    num_missed: int = 0
    num_undrafted: int = 0
    num_proposed: int = 0
    num_accepted: int = 0
    num_generated: int = 0
    num_answers: int = 0

    def saw(self, advance: Advance) -> None:
        """Count what the tree said of the target's latest tokens."""
        self.num_confirmed += advance.num_confirmed + advance.num_branched
        self.num_branched += advance.num_branched
        self.num_missed += advance.num_missed
        self.num_undrafted += advance.num_undrafted
        self.num_pooled += advance.num_pooled

    def finished(self, timings: Mapping[str, object]) -> None:
        """Count what the target's `timings` say of a finished answer."""
        self.num_answers += 1
        self.num_generated += _count(timings.get("predicted_n"))
        self.num_proposed += _count(timings.get("draft_n"))
        self.num_accepted += _count(timings.get("draft_n_accepted"))

    def add(self, other: "DraftCounts") -> None:
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / proposed by the target's own counts; None before any proposal."""
        return self.num_accepted / self.num_proposed if self.num_proposed else None

    @property
    def draft_hit_rate(self) -> float | None:
        """Share of drafted positions at which the target said what was drafted."""
        tried = self.num_confirmed + self.num_missed
        return self.num_confirmed / tried if tried else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Block efficiency: emitted tokens per target pass, from the target's counts."""
        passes = self.num_generated - self.num_accepted
        return self.num_generated / passes if passes > 0 else None


def _count(value: object) -> int:
    """A count that somebody else sent; 0 for what is none."""
    return value if type(value) is int and value > 0 else 0
