"""What a route has learned of one draft and one target, and keeps across restarts.

Acceptance by kind and by position since ever, and by time over the last day.
"""

from collections.abc import Mapping
from typing import Any

from specproxy.core.positions import Positions
from specproxy.core.tally import Tally
from specproxy.core.timeline import Timeline

MAX_KINDS = 16


class Record:
    """The long memory of a route."""

    def __init__(self) -> None:
        self.kinds: dict[str, Tally] = {}
        self.positions = Positions()
        self.day = Timeline(period_s=600.0, num_periods=144)

    def __repr__(self) -> str:
        return f"<Record {self.positions!r} {self.day!r}>"

    def add(self, day_s: float, kind: str | None, tally: Tally) -> None:
        """Count `tally`.

        Args:
            day_s: the time of day, seconds.
            kind: of the answer it belongs to; None: to none.
        """
        self.day.add(day_s, tally)
        if kind is not None and (kind in self.kinds or len(self.kinds) < MAX_KINDS):
            self.kinds.setdefault(kind, Tally()).add(tally)

    def saved(self) -> Mapping[str, Any]:
        """For a file; `restored` reads it."""
        return {
            "kinds": {kind: tally.saved() for kind, tally in self.kinds.items()},
            "positions": self.positions.as_json(),
            "day": self.day.saved(),
        }

    @classmethod
    def restored(cls, saved: Any, day_s: float) -> "Record":
        """
        Raises:
            ValueError: it is no record.
        """
        if not isinstance(saved, dict) or not isinstance(saved.get("kinds"), dict):
            raise ValueError("no record")
        record = cls()
        for kind, tally in list(saved["kinds"].items())[:MAX_KINDS]:
            record.kinds[str(kind)] = Tally.restored(tally)
        record.positions.restore(saved.get("positions"))
        record.day.restore(saved.get("day"), day_s)
        return record
