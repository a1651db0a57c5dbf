"""What a proxy has counted, read from its status. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from specproxy.core.tally import Tally


@dataclass(frozen=True, slots=True)
class ProxyCounts:
    """So far, or in a period.

    Attributes:
        counts: of its answers.
        tally: tokens by origin, and seconds by phase.
    """

    counts: Mapping[str, int]
    tally: Tally

    @classmethod
    def of_route(cls, status: Mapping[str, Any]) -> "ProxyCounts":
        """As a route's status has them. Of the last day: no benchmark takes longer."""
        said = status["observed"]["windows"]["24h"]
        return cls(
            {name: int(count) for name, count in status["counts"].items()},
            Tally(**{item.name: said[item.name] for item in fields(Tally)}),
        )

    @property
    def num_answers(self) -> int:
        """Answers of which everything is counted."""
        return min(self.counts["num_answers"], self.tally.num_answers)

    def since(self, before: "ProxyCounts") -> "ProxyCounts":
        """What was added since `before`."""
        added = {
            item.name: getattr(self.tally, item.name) - getattr(before.tally, item.name)
            for item in fields(Tally)
        }
        counts = {name: count - before.counts.get(name, 0) for name, count in self.counts.items()}
        return ProxyCounts(counts, Tally(**added))
