"""The kinds of proxy that a demo benchmark compares: how it works, how far away, with what draft.

Pure. A kind says what is built; an arm is one that runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from specproxy.pool.demo import Mode

Way = Literal["seeding", "seeding-on-draft", "fanout", "coordinator"]
"""How the proxy speeds its target up. `seeding-on-draft`: the target has a draft model of its own,
too, and uses it where no seed fits."""
WAYS: tuple[Way, ...] = get_args(Way)

_POOLS: dict[Way, Mode] = {
    "seeding": "ngram",
    "seeding-on-draft": "ngram-draft",
    "fanout": "slots",
    "coordinator": "coordinator",
}


@dataclass(frozen=True, slots=True)
class ProxyKind:
    """One kind.

    Attributes:
        draft_n: of `seeding-on-draft`: tokens that the target's own draft drafts at most.
        groups: of `coordinator`: batches it keeps in flight.
        front_rtt_ms: round trip between the proxy and its target.
        recorded_ms: its draft is a recorded one that takes so long per token; None: a real one.
    """

    way: Way
    draft_n: int | None = None
    groups: int = 1
    front_rtt_ms: float = 0.0
    recorded_ms: float | None = None

    @property
    def pool_mode(self) -> Mode:
        """Of the demo pool behind it."""
        return _POOLS[self.way]

    @property
    def label(self) -> str:
        """For the reader."""
        parts = [self.way.replace("-", " ")]
        if self.draft_n is not None:
            parts[0] += f" n={self.draft_n}"
        if self.groups > 1:
            parts.append(f"{self.groups} groups")
        if self.front_rtt_ms:
            parts.append(f"{self.front_rtt_ms:g} ms away")
        if self.recorded_ms is not None:
            parts.append(f"recorded {self.recorded_ms:g} ms")
        return f"specproxy ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which kinds a benchmark compares.

    Attributes:
        draft_ns: for `seeding-on-draft`, each a kind of its own.
        groups: for `coordinator`, each a kind of its own.
        front_rtt_ms: each kind also with its target so far away; 0: all are beside it.
        recorded_ms: each kind also with a recorded draft; None: all draft themselves.
    """

    ways: Sequence[Way] = ("seeding",)
    draft_ns: Sequence[int] = (8,)
    groups: Sequence[int] = (1,)
    front_rtt_ms: float = 0.0
    recorded_ms: float | None = None

    @property
    def kinds(self) -> list[ProxyKind]:
        """Plain ones first, way by way."""
        return [
            ProxyKind(way, draft_n, groups, front_rtt_ms, recorded_ms)
            for way in self.ways
            for draft_n in (self.draft_ns if way == "seeding-on-draft" else (None,))
            for groups in (self.groups if way == "coordinator" else (1,))
            for front_rtt_ms in dict.fromkeys((0.0, self.front_rtt_ms))
            for recorded_ms in dict.fromkeys((None, self.recorded_ms))
        ]
