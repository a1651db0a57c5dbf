"""What happened in a period: counts and times that can be added up.

Drafting and seeding go on beside the target's passes, so the times of the phases overlap: they are
no parts of a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from specproxy.core.origins import Origin


@dataclass(slots=True)
class Tally:
    """Passes, tokens by origin, and seconds by phase.

    Attributes:
        num_answers: answers that ended.
        num_passes: passes of the target that brought tokens, counted per answer.
        num_tokens: tokens the target said.
        num_line, num_branch, num_pool, num_missed, num_undrafted: those, by origin.
        num_timed: tokens of all passes but each answer's first, which reads the prompt.
        decode_s: time that those took, as the proxy saw them arrive; per answer.
        draft_s: the draft worked.
        seed_s: a seed was on its way.
        pass_s: the target was in a pass.
        wait_s: an answer waited: for a slot, or a pass for the draft.
    """

    num_answers: int = 0
    num_passes: int = 0
    num_tokens: int = 0
    num_line: int = 0
    num_branch: int = 0
    num_pool: int = 0
    num_missed: int = 0
    num_undrafted: int = 0
    num_timed: int = 0
    decode_s: float = 0.0
    draft_s: float = 0.0
    seed_s: float = 0.0
    pass_s: float = 0.0
    wait_s: float = 0.0

    def add(self, other: "Tally") -> None:
        for name in _NAMES:
            value = getattr(other, name)
            if value:  # (most are zero, and this runs several times for each pass)
                setattr(self, name, getattr(self, name) + value)

    def said(self, origin: Origin, times: int = 1) -> None:
        """The target said `times` tokens of this origin; -1 takes one back."""
        name = _OF_ORIGIN[origin]
        setattr(self, name, getattr(self, name) + times)

    def num_of(self, origin: Origin) -> int:
        count: int = getattr(self, _OF_ORIGIN[origin])
        return count

    @property
    def num_confirmed(self) -> int:
        """Drafted tokens that the target said, branches included."""
        return self.num_line + self.num_branch

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the places with a draft where the target said a drafted token."""
        tried = self.num_confirmed + self.num_missed
        return self.num_confirmed / tried if tried else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Block efficiency."""
        return self.num_tokens / self.num_passes if self.num_passes else None

    @property
    def tokens_per_s(self) -> float | None:
        """Speed of one answer, on average, while it is decoded."""
        return self.num_timed / self.decode_s if self.decode_s > 0 else None

    def saved(self) -> list[float]:
        """For a file; `restored` reads it."""
        return [round(getattr(self, name), 3) for name in _NAMES]

    @classmethod
    def restored(cls, saved: object) -> "Tally":
        """
        Raises:
            ValueError: it is no tally.
        """
        if not isinstance(saved, list) or len(saved) != len(_NAMES):
            raise ValueError("no tally")
        tally = cls()
        for name, kind, value in zip(_NAMES, _KINDS, saved, strict=True):
            setattr(tally, name, _number(value, kind))
        return tally

    def as_json(self) -> Mapping[str, object]:
        """For the status and the page."""
        return {
            **{name: round(getattr(self, name), 4) for name in _NAMES},
            "acceptance_rate": _rounded(self.acceptance_rate),
            "tokens_per_pass": _rounded(self.tokens_per_pass),
            "tokens_per_s": _rounded(self.tokens_per_s),
        }


_NAMES = tuple(item.name for item in fields(Tally))
_KINDS = tuple(type(item.default) for item in fields(Tally))
_OF_ORIGIN = {origin: f"num_{origin.value}" for origin in Origin}


def _number(value: object, kind: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise ValueError("no count")
    number: float = kind(value)
    return number


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
