"""Checks answers against the target alone: replays on a server without speculation.

Invariant: an answer counts as identical only if every token of it was the target's own choice,
or a near-tie of it, in the context of the answer so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from specproxy.bench.answers import chat_body
from specproxy.bench.equality import TIE_MARGIN, Departure, Step, departure
from specproxy.bench.replay import replay, replay_stepwise
from specproxy.bench.stats import Answer
from specproxy.target.client import TargetClient
from specproxy.target.tokens import TargetTokens


@dataclass(frozen=True, slots=True)
class Finding:
    """A tie, or the difference that ended the check.

    Attributes:
        position: token of the answer, from 0.
        expected, said: texts of the target's token and of the answer's.
        gap: of their log-probabilities; None if the target did not consider the token.
    """

    position: int
    expected: str
    said: str
    gap: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one answer."""

    difference: Finding | None = None
    ties: tuple[Finding, ...] = field(default=())

    @property
    def identical(self) -> bool:
        return self.difference is None


class Judge:
    """Judges answers with a server of the same target that does not speculate.

    Args:
        client: of that server, not of a proxy.
        margin: see `equality.TIE_MARGIN`.
        stepwise: the server may speculate by itself; see `replay_stepwise`.
    """

    def __init__(
        self, client: TargetClient, *, margin: float = TIE_MARGIN, stepwise: bool = False
    ) -> None:
        self._client = client
        self._stepwise = stepwise
        self._tokens = TargetTokens(client)
        self.margin = margin
        self.num_replays = 0

    async def judge(
        self,
        messages: Sequence[dict[str, str]],
        num_tokens: int,
        *,
        reference: Answer,
        answer: Answer,
    ) -> Verdict:
        """Whether `answer` is the target's; replays only where it is not `reference`, word
        for word.

        Args:
            num_tokens: the limit that both were asked with.
        """
        if (answer.text, answer.num_tokens) == (reference.text, reference.num_tokens):
            return Verdict()
        context = await self._tokens.chat_prompt(chat_body(messages, num_tokens))
        said = answer.text.encode()
        ties: list[Finding] = []
        done = 0
        while done < num_tokens:
            steps = await self._replay(context, num_tokens - done)
            found = departure(steps, said)
            if found is None:
                return Verdict(ties=tuple(ties))
            before = [token for step in steps[: found.index] for token in step.tokens]
            finding = finding_of(done + len(before), found, steps, said)
            if found.said is None or not found.is_tie(self.margin):
                return Verdict(finding, tuple(ties))
            ties.append(finding)
            if not found.said.piece:  # the answer ended its turn there
                return Verdict(ties=tuple(ties))
            context += [*before, found.said.token]
            said = said[found.offset + len(found.said.piece) :]
            done += len(before) + 1
        if not said:
            return Verdict(ties=tuple(ties))
        return Verdict(Finding(done, "", said[:40].decode("utf-8", "replace"), None), tuple(ties))

    async def _replay(self, context: Sequence[int], num_tokens: int) -> list[Step]:
        """The target alone, from `context` on."""
        self.num_replays += 1
        if self._stepwise:
            return await replay_stepwise(self._client, context, num_tokens)
        return await replay(self._client, context, num_tokens)


def finding_of(position: int, found: Departure, steps: Sequence[Step], said: bytes) -> Finding:
    """What is to be said of where the text `said` leaves `steps`.

    Args:
        position: of the token there, in the answer.
    """
    expected = steps[found.index].taken.piece if found.index < len(steps) else b""
    shown = found.said.piece if found.said is not None else said[found.offset :][:40]
    return Finding(
        position,
        expected.decode("utf-8", "replace"),
        shown.decode("utf-8", "replace"),
        found.gap,
    )
