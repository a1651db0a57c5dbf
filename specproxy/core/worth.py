"""What seeding is worth on one route: how far to draft, which branches to seed, or not at all.

Everything is weighed in seconds of the target. A drafted token that is reached saves about the
time that a token takes now (the pace); a seeded token costs a row in a pass, whether it is right or
not. Where rows cost next to nothing (a pool of GPUs far away) long lines and many branches pay;
where a row costs a tenth of a pass, only likely ones do. Where the target seldom agrees with the
draft, nothing pays: a miss costs its pass and the two in which a new seed is drafted and read.

While nothing pays, now and then the first tokens of an answer are drafted but not seeded: that
costs the target nothing, and shows when it pays again. Pure: durations are passed in.
"""

from dataclasses import replace
from enum import Enum

from specproxy.core.cost import PassCost
from specproxy.core.window import Window

N_MATCH = 10
"""Key length of a pool, by the flags we ask for (`--spec-ngram-mod-n-match`)."""
N_MAX = 32
"""Tokens that a pool proposes at once, by the flags we ask for (`--spec-ngram-mod-n-max`)."""
SHADOW_TOKENS = 12
"""Tokens of an answer that are drafted to see whether drafts would be right."""
SHADOW_EVERY = 2
"""Answers while drafts do not pay, of which one is tried so."""
TRY_EVERY, MAX_TRY_EVERY = 4, 16
"""Answers of which one is seeded all the same, where seeds were right and yet did not pay: what
made them slow (a busy machine, another link) may be over. Twice as many after each trial that
was lost, up to the second."""
_FORGET_DECIDED = 0.98
_FORGET_PASS = 0.97
_PRIOR_HITS, _PRIOR_DECIDED = 6.4, 8.0
_SEED_ROWS = 8
"""Of a pass after a miss."""
_LEAST_GAIN, _RETURN_GAIN = 1.03, 1.08
_MIN_PASSES, _PROVEN_PASSES = 48, 240
_LOSS = 1.03


class State(Enum):
    """What a route has found."""

    PAYS = "pays"
    MISSES = "misses"
    """The target seldom agrees with the draft."""
    LOST = "lost"
    """Drafts were right, and plain passes would have been quicker."""
    TRIED = "tried"
    """The same, and it is being tried again."""


class Trial(Enum):
    """What to do with an answer."""

    SEED = "seed"
    SHADOW = "shadow"
    """Draft its first tokens, seed nothing."""
    NONE = "none"


class Worth:
    """One route's knowledge.

    Args:
        n_match: key length of the target's pool: so many tokens lead up to a branch.
        n_max: tokens that it proposes at once.

    Attributes:
        cost: time of a pass by its rows.
        state: what it has found so far.
    """

    def __init__(self, n_match: int, n_max: int = N_MAX) -> None:
        self.n_max = n_max
        self.cost = PassCost()
        self.state = State.PAYS
        self._n_match = n_match
        self._hits, self._decided = _PRIOR_HITS, _PRIOR_DECIDED
        self._time_s = self._tokens = self._answers = self._weight = 0.0
        self._num_passes = 0
        self._fresh_tokens = 0
        self._num_unpaid = 0
        self._try_every = TRY_EVERY

    def __repr__(self) -> str:
        return (
            f"<Worth {self.state.value} acceptance={self.acceptance:.2f} pace={self.pace_s:.3f}"
            f" {self.cost!r}>"
        )

    @property
    def pays(self) -> bool:
        """Whether every answer should be seeded."""
        return self.state is State.PAYS

    @property
    def seeds(self) -> bool:
        """Whether an answer that is being seeded should go on so."""
        return self.state in (State.PAYS, State.TRIED)

    @property
    def acceptance(self) -> float:
        """Share of the latest drafted tokens that the target agreed with."""
        return self._hits / self._decided

    @property
    def pace_s(self) -> float:
        """Seconds per token of all seeded answers; that of plain passes while nothing is known."""
        return self._time_s / self._tokens if self._tokens >= 1.0 else self.cost.pass_s(1)

    @property
    def alone_s(self) -> float:
        """The same without drafts, with as many answers at a time."""
        num_answers = max(1.0, self._answers / self._weight) if self._weight else 1.0
        return self.cost.pass_s(round(num_answers)) / num_answers

    def begin(self) -> Trial:
        """An answer begins."""
        if self.seeds:
            return Trial.SEED
        self._num_unpaid += 1
        if self.state is State.MISSES:
            return Trial.NONE if self._num_unpaid % SHADOW_EVERY else Trial.SHADOW
        if self._num_unpaid < self._try_every:
            return Trial.NONE
        self._begin_anew(State.TRIED)
        return Trial.SEED

    def decided(self, *, hit: bool) -> None:
        """The target has agreed with a drafted token, or not."""
        self._hits = _FORGET_DECIDED * self._hits + hit
        self._decided = _FORGET_DECIDED * self._decided + 1.0
        gain = self.expected_gain
        if self.seeds and gain < _LEAST_GAIN:
            self._begin_anew(State.MISSES)
        elif self.state is State.MISSES and gain > _RETURN_GAIN:
            self._begin_anew(State.PAYS)

    def said(self, num_tokens: int) -> None:
        """A seeded answer has so many tokens more."""
        self._fresh_tokens += num_tokens

    def skipped(self) -> None:
        """A pass has ended that says nothing of seeding."""
        self._fresh_tokens = 0

    def passed(self, num_rows: int | None, duration_s: float, num_answers: int = 1) -> None:
        """A pass took so long while `num_answers` were seeded.

        Args:
            num_rows: verified and seeded; None: not known.
        """
        if num_rows is not None:
            self.cost.observe(num_rows, duration_s)
        most_rows = 2 * self.n_max + 1 if num_rows is None else num_rows
        duration_s = self.cost.plausible_s(most_rows, duration_s)
        fresh, self._fresh_tokens = self._fresh_tokens, 0
        self._time_s = _FORGET_PASS * self._time_s + duration_s
        self._tokens = _FORGET_PASS * self._tokens + fresh
        self._answers = _FORGET_PASS * self._answers + num_answers
        self._weight = _FORGET_PASS * self._weight + 1.0
        self._num_passes += 1
        if self._num_passes < _MIN_PASSES or not self.seeds or not self.cost.num_observed:
            return
        if self.pace_s > _LOSS * self.alone_s:
            self._lose()
        elif self.state is State.TRIED:
            self.state = State.PAYS
        elif self._num_passes > _PROVEN_PASSES:
            self._try_every = TRY_EVERY

    @property
    def expected_gain(self) -> float:
        """How many times as fast as alone, by acceptance and cost: after a miss come two passes
        without drafts, then the line, as far as it is right."""
        right = self.acceptance
        line = min(right / max(1e-3, 1.0 - right), 4.0 * self.n_max)
        num_passes = 2.0 + max(1.0, (line + 1.0) / (self.n_max + 1))
        seconds = num_passes * self.cost.pass_s(1 + _SEED_ROWS)
        return (3.0 + line) * self.cost.pass_s(1) / seconds

    def window(self, window: Window) -> Window:
        """`window` with what rows cost here: a line that ends too early costs a plain pass, and so
        does a miss whose branch is missing."""
        row_cost = self.cost.row_s / self.cost.pass_s(1)
        branch_rows = window.branch_tokens + self._n_match
        line = min(1.0 / max(1e-3, 1.0 - self.acceptance), self.n_max + 1)
        return replace(
            window,
            sure_tokens=max(2, round(2 * line)),
            min_reach=max(window.min_reach, row_cost),
            min_branch_reach=max(window.min_branch_reach, branch_rows * row_cost),
        )

    def _lose(self) -> None:
        if self.state is State.TRIED:
            self._try_every = min(2 * self._try_every, MAX_TRY_EVERY)
        self._begin_anew(State.LOST)

    def _begin_anew(self, state: State) -> None:
        self.state, self._num_unpaid, self._num_passes = state, 0, 0
        self._fresh_tokens = 0
        self._time_s = self._tokens = self._answers = self._weight = 0.0
