"""Does speculation pay with so many answers at once? Found by measuring both.

Rows that verify drafts compete with other answers' rows. With one user they are free; with many,
a batch of plain rows may say more tokens per second than the same batch with drafts in it. So at
each level of load the speed of an answer with and without speculation is kept; since all answers
of a level are as many, the faster answer is also the higher throughput.

Pure: whoever asks tells the time.
"""

from dataclasses import dataclass

MIN_TOKENS = 8
"""Shorter answers say nothing of speed."""
MIN_ANSWERS = 2
"""Of each kind, before they are compared."""
ALWAYS_BELOW = 3
"""Levels with fewer answers are not probed: nobody gets a slow answer so that we learn."""
PROBE_AFTER = 8
"""Answers that were sped up, before the first one is not."""
PROBE_EVERY = 12
"""Answers, of which one goes the other way, to see whether that is still slower."""
MARGIN = 1.05
"""Speculation must lose by so much before it is given up, and must win by it to come back."""
FORGET_S = 600.0
"""After so long without a measurement the other way is tried again."""
_SMOOTHING = 0.25


@dataclass(slots=True)
class Speed:
    """Tokens per second of one answer, smoothed."""

    num_answers: int = 0
    tokens_per_s: float = 0.0
    at_s: float = 0.0

    def learn(self, tokens_per_s: float, now_s: float) -> None:
        weight = max(_SMOOTHING, 1 / (self.num_answers + 1))
        self.tokens_per_s += weight * (tokens_per_s - self.tokens_per_s)
        self.num_answers += 1
        self.at_s = now_s


@dataclass(slots=True)
class Level:
    """What is known at one level of load."""

    with_drafts: Speed
    alone: Speed
    speculates: bool = True
    num_asked: int = 0


class Crossover:
    """One route's knowledge. Levels of load: 1, 2-3, 4-7, 8-15... answers at a time.

    Attributes:
        drafts_itself: the target drafts where it is left alone. Neither way is a slow one then, so
            they are compared from the first answers on, at any load.
    """

    def __init__(self) -> None:
        self.drafts_itself = False
        self._levels: dict[int, Level] = {}

    def __repr__(self) -> str:
        shown = (
            f"{1 << number}+: {level.with_drafts.tokens_per_s:.1f} with,"
            f" {level.alone.tokens_per_s:.1f} without"
            for number, level in sorted(self._levels.items())
        )
        return f"<Crossover {'; '.join(shown)}>"

    @property
    def steps_down_at(self) -> int | None:
        """The number of answers from which on speculation does not pay; None: none known."""
        down = [1 << number for number, level in self._levels.items() if not level.speculates]
        return min(down, default=None)

    def speculates(self, num_running: int, now_s: float) -> bool:
        """Whether an answer that begins now should be sped up.

        Args:
            num_running: answers at a time, this one included.
        """
        level = self._level(num_running)
        level.num_asked += 1
        if num_running < ALWAYS_BELOW and level.speculates and not self.drafts_itself:
            return True
        num_first = 0 if self.drafts_itself else PROBE_AFTER
        if level.speculates and level.with_drafts.num_answers < num_first:
            return True
        other = level.alone if level.speculates else level.with_drafts
        is_unknown = other.num_answers < MIN_ANSWERS or now_s - other.at_s > FORGET_S
        soon = 2 if self.drafts_itself else PROBE_EVERY // 3
        every = soon if is_unknown else PROBE_EVERY
        probes = level.num_asked % every == 0
        return level.speculates != probes

    def finished(
        self, num_running: int, tokens_per_s: float, now_s: float, *, speculated: bool
    ) -> None:
        """An answer has ended.

        Args:
            num_running: answers at a time while it ran, itself included.
            tokens_per_s: after its first token.
        """
        level = self._level(num_running)
        (level.with_drafts if speculated else level.alone).learn(tokens_per_s, now_s)
        if min(level.with_drafts.num_answers, level.alone.num_answers) < MIN_ANSWERS:
            return
        gain = level.with_drafts.tokens_per_s / max(level.alone.tokens_per_s, 1e-9)
        if level.speculates and gain < 1 / MARGIN:
            level.speculates = False
        elif not level.speculates and gain > MARGIN:
            level.speculates = True

    def _level(self, num_running: int) -> Level:
        number = max(1, num_running).bit_length() - 1
        return self._levels.setdefault(number, Level(Speed(), Speed()))
