"""What a check found, and how to mend it."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the doctor.

    Attributes:
        check: a short name, the same in every version, for scripts.
        remedy: what to do; empty where all is well.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""
