"""Is an answer what the target alone says? Decided token by token. Pure.

An answer is checked against a *replay*: the target alone, greedy, one token per pass, with the
probabilities it saw. Where the answer takes another token than the replay, that is a *tie* if
the target held both for almost equally likely (the shape of a batch may flip such an argmax on
any engine), else a *difference*.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TIE_MARGIN = 0.05
"""Two tokens whose log-probabilities are closer than this are a near-tie."""
_STEPS_BACK = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that the target considered.

    Attributes:
        piece: the bytes it adds to the text; empty for one that ends the turn.
        logprob: natural logarithm of its probability.
    """

    token: int
    piece: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the replay: the token taken, and the next best.

    Attributes:
        tokens: the ids of the step. Several where a character took several: llama-server then
            shows the last one only, with the text of all; its alternatives are not kept, so that
            a difference inside a character never counts as a tie.
    """

    taken: Candidate
    others: tuple[Candidate, ...] = ()
    tokens: tuple[int, ...] = ()


def aligned(shown: Sequence[Step], tokens: Sequence[int]) -> list[Step]:
    """The steps that llama-server shows, with the ids of those that it does not.

    Args:
        shown: steps without ids.
        tokens: all ids of the answer.
    """
    steps, rest = [], list(tokens)
    for step in shown:
        if step.taken.token not in rest:
            break
        count = rest.index(step.taken.token) + 1
        others = step.others if count == 1 else ()
        steps.append(Step(step.taken, others, tuple(rest[:count])))
        del rest[:count]
    return steps


@dataclass(frozen=True, slots=True)
class Departure:
    """Where an answer leaves the replay.

    Attributes:
        index: the replay's step.
        offset: bytes of text before it.
        said: the token the answer took there; None if the target did not consider it.
        gap: difference of the log-probabilities; None with `said`.
        fitting: all tokens it may have taken, `said` the likeliest of them: where the text goes on
            with " there", " the" fits, too.
    """

    index: int
    offset: int
    said: Candidate | None = None
    gap: float | None = None
    fitting: tuple[Candidate, ...] = ()

    def is_tie(self, margin: float) -> bool:
        """Whether the target held both tokens for almost equally likely."""
        return self.gap is not None and self.gap < margin


def departure(replay: Sequence[Step], said: bytes) -> Departure | None:
    """The first step at which the text `said` leaves the replay; None if it never does.

    A text that only lacks the bytes of an incomplete last character does not leave it: a stream
    of text cannot show them.
    """
    offsets = [0]
    for index, step in enumerate(replay):
        if not said.startswith(step.taken.piece, offsets[-1]):
            rest = b"".join(later.taken.piece for later in replay[index:])
            return None if _is_cut_off(rest, said[offsets[-1] :]) else _find(replay, said, offsets)
        offsets.append(offsets[-1] + len(step.taken.piece))
    if offsets[-1] == len(said):
        return None
    return _find(replay, said, offsets[:-1]) if replay else Departure(0, 0)


def _is_cut_off(rest: bytes, said: bytes) -> bool:
    """Whether `rest` is `said` and a beginning of one character."""
    return rest.startswith(said) and not rest[len(said) :].decode("utf-8", "ignore")


def _find(replay: Sequence[Step], said: bytes, offsets: Sequence[int]) -> Departure:
    """The token that was taken otherwise. It may lie before the first other byte: where the
    replay said " the", " re" the answer may have said " there"."""
    last = len(offsets) - 1
    for index in range(last, max(-1, last - _STEPS_BACK), -1):
        step, rest = replay[index], said[offsets[index] :]
        fitting = tuple(
            other
            for other in step.others
            if (rest.startswith(other.piece) if other.piece else not rest)
            and other.piece != step.taken.piece
        )
        if fitting:
            gap = step.taken.logprob - fitting[0].logprob
            return Departure(index, offsets[index], fitting[0], gap, fitting)
    return Departure(last, offsets[last])
