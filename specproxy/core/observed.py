"""What a route's answers show: over time, by position, by kind, by phase; and those that run.

Sessions report to an `ObservedAnswer`; the page, the status, the metrics and the state file read
`Observed`. Invariant: memory is bounded, and a report costs a few additions; whatever is dear
(texts, JSON) is made by who reads.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specproxy.core.alone import AlonePace
from specproxy.core.histogram import SECONDS, TOKENS, Histogram
from specproxy.core.origins import Origin, SaidTokens
from specproxy.core.positions import Positions
from specproxy.core.record import Record
from specproxy.core.tally import Tally
from specproxy.core.timeline import Timeline

NUM_PROMPT = 64
"""Tokens of a running answer's prompt that are kept to be shown."""
NUM_DECISIONS = 16
_CONFIRMED = (Origin.LINE, Origin.BRANCH)
_NOT_OURS = (Origin.MISSED, Origin.UNDRAFTED)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a route has begun to do with answers, why, and since when (seconds of the day)."""

    at_s: float
    mode: str
    reason: str


class Observed:
    """One route, as its answers show it.

    Args:
        epoch_s: what to add to the callers' clock for the time of day. All times given to
            methods are of that clock, which never goes back.

    Attributes:
        record: what is worth keeping beyond this process.
        recent: the last quarter of an hour, finely.
        total, said, positions, num_drafts: since this process began. `said`: tokens by kind and
            origin; `num_drafts`: passes that began with a draft.
        running: answers that are being followed, by number.
    """

    def __init__(self, epoch_s: float = 0.0) -> None:
        self.epoch_s = epoch_s
        self.record = Record()
        self.recent = Timeline(period_s=10.0, num_periods=90)
        self.total = Tally()
        self.said: dict[tuple[str, Origin], int] = {}
        self.positions = Positions()
        self.num_drafts = 0
        self.pass_time_s = Histogram(SECONDS)
        self.token_gap_s = Histogram(SECONDS)
        self.draft_token_s = Histogram(SECONDS)
        self.pass_tokens = Histogram(TOKENS)
        self.alone = AlonePace()
        self.running: dict[int, ObservedAnswer] = {}
        self.decisions: deque[Decision] = deque(maxlen=NUM_DECISIONS)
        self.num_seeds_failed = 0
        self._num_begun = 0

    def __repr__(self) -> str:
        return f"<Observed running={len(self.running)} passes={self.total.num_passes}>"

    def day_s(self, now_s: float) -> float:
        """The time of day of the callers' `now_s`."""
        return now_s + self.epoch_s

    def begin(
        self, kind: str, now_s: float, *, request_id: str = "", has_pool: bool = False
    ) -> "ObservedAnswer":
        """An answer that is followed from now on; its `end` must be called.

        Args:
            has_pool: the target proposes tokens of its own, too.
        """
        self._num_begun += 1
        answer = ObservedAnswer(
            self, self._num_begun, kind, now_s, request_id=request_id, has_pool=has_pool
        )
        self.running[answer.number] = answer
        return answer

    def seeded(self, now_s: float, duration_s: float, *, failed: bool = False) -> None:
        """A seed was on its way for `duration_s`."""
        self.num_seeds_failed += failed
        self.count(now_s, None, Tally(seed_s=duration_s))

    def waited(self, now_s: float, duration_s: float) -> None:
        """An answer waited for a slot."""
        self.count(now_s, None, Tally(wait_s=duration_s))

    def decided(self, now_s: float, mode: str, reason: str) -> None:
        """The route does something else from now on."""
        self.decisions.append(Decision(self.day_s(now_s), mode, reason))

    def count(self, now_s: float, kind: str | None, tally: Tally) -> None:
        """Add `tally` wherever it belongs."""
        day_s = self.day_s(now_s)
        self.total.add(tally)
        self.recent.add(day_s, tally)
        self.record.add(day_s, kind, tally)
        if kind is not None:
            for origin in Origin:
                if num_tokens := tally.num_of(origin):
                    key = (kind, origin)
                    self.said[key] = self.said.get(key, 0) + num_tokens

    def decided_at(self, position: int, *, confirmed: bool) -> None:
        """The target decided on the drafted token at `position` of a block."""
        self.positions.count(position, confirmed=confirmed)
        self.record.positions.count(position, confirmed=confirmed)

    def windows(self, now_s: float) -> Mapping[str, Tally]:
        """What happened in the last minute, quarter of an hour, hour and day."""
        day_s = self.day_s(now_s)
        return {
            "1m": self.recent.recent(day_s, 60.0),
            "15m": self.recent.recent(day_s, 900.0),
            "1h": self.record.day.recent(day_s, 3600.0),
            "24h": self.record.day.recent(day_s, 86400.0),
        }


class ObservedAnswer:
    """One running answer.

    Attributes:
        number, kind, request_id, began_s: which.
        prompt, num_prompt: its last tokens, and how many there are.
        said: what it consists of so far.
        total: of this answer alone.
    """

    def __init__(
        self,
        observed: Observed,
        number: int,
        kind: str,
        now_s: float,
        *,
        request_id: str,
        has_pool: bool,
    ) -> None:
        self.number = number
        self.kind = kind
        self.request_id = request_id
        self.began_s = now_s
        self.prompt: tuple[int, ...] = ()
        self.num_prompt = 0
        self.said = SaidTokens()
        self.total = Tally()
        self._observed = observed
        self._has_pool = has_pool
        self._fresh = Tally()  # of the present pass; counted when the next begins
        self._arrived_s: float | None = None
        self._gap_s: float | None = None
        self._duration_s: float | None = None
        self._plain = False
        self._num_in_pass = 0
        self._last = Origin.LINE

    def __repr__(self) -> str:
        return f"<ObservedAnswer {self.number} {self.kind} tokens={self.said.num_tokens}>"

    def reads(self, prompt: Sequence[int]) -> None:
        """Its prompt is known."""
        self.num_prompt = len(prompt)
        self.prompt = tuple(prompt[-NUM_PROMPT:])

    def drafted(self, num_tokens: int, duration_s: float) -> None:
        """The draft made `num_tokens` for it, one after the other."""
        self._fresh.draft_s += duration_s
        if num_tokens:
            self._observed.draft_token_s.observe(duration_s / num_tokens, num_tokens)

    def passed(
        self,
        now_s: float,
        *,
        duration_s: float | None = None,
        waited_s: float = 0.0,
        plain: bool = False,
    ) -> None:
        """A pass has ended; what is said from now on it brought.

        Args:
            duration_s: of the pass, where the target tells; None: since the last one.
            waited_s: the pass waited for drafts.
            plain: it had a single row.
        """
        self._close(now_s)
        self._gap_s = None if self._arrived_s is None else now_s - self._arrived_s
        self._arrived_s = now_s
        self._duration_s = self._gap_s if duration_s is None else duration_s
        self._plain = plain
        self._fresh.wait_s += waited_s

    def said_tokens(self, tokens: Sequence[int], origins: Sequence[Origin] = ()) -> None:
        """The target said `tokens`; without `origins` nobody has drafted them."""
        for index, token in enumerate(tokens):
            origin = origins[index] if index < len(origins) else Origin.UNDRAFTED
            if self._has_pool and self._num_in_pass and self._last in _NOT_OURS:
                # that was not its pass's last token, so the pool has proposed it
                self._fresh.said(self._last, -1)
                self._fresh.said(Origin.POOL)
                self.said.correct(Origin.POOL)
            if not self._num_in_pass:
                self._observed.num_drafts += origin is not Origin.UNDRAFTED
            if origin is not Origin.UNDRAFTED:
                self._observed.decided_at(self._num_in_pass, confirmed=origin in _CONFIRMED)
            self._fresh.said(origin)
            self.said.add(token, origin)
            self._last = origin
            self._num_in_pass += 1

    def end(self, now_s: float) -> None:
        """It is over, in whatever way."""
        self._fresh.num_answers += bool(self.said.num_tokens)
        self._close(now_s)
        self._observed.running.pop(self.number, None)

    def _close(self, now_s: float) -> None:
        """Count the pass that has brought its last token."""
        fresh, observed, num_tokens = self._fresh, self._observed, self._num_in_pass
        if num_tokens:
            fresh.num_passes, fresh.num_tokens = 1, num_tokens
            observed.pass_tokens.observe(num_tokens)
            if self._gap_s is not None:
                fresh.decode_s, fresh.num_timed = self._gap_s, num_tokens
                observed.token_gap_s.observe(self._gap_s / num_tokens, num_tokens)
                if self._duration_s is not None:
                    fresh.pass_s = self._duration_s
                    observed.pass_time_s.observe(self._duration_s)
                    observed.alone.passed(self._duration_s, plain=self._plain)
        self.total.add(fresh)
        observed.count(now_s, self.kind, fresh)
        self._fresh, self._num_in_pass = Tally(), 0
