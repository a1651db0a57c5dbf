"""Checks answers against the target alone: replays on a server without speculation.

Invariant: an answer counts as identical only if every token of it was the target's own choice,
or a near-tie of it, in the context of the answer so far.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specproxy.bench.answers import chat_body
from specproxy.bench.equality import TIE_MARGIN, Candidate, Departure, Step, aligned, departure
from specproxy.bench.stats import Answer
from specproxy.errors import TargetError
from specproxy.target.client import TargetClient
from specproxy.target.tokens import TargetTokens

_NUM_CANDIDATES = 5


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
    """

    def __init__(self, client: TargetClient, *, margin: float = TIE_MARGIN) -> None:
        self._client = client
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
            replay = await self._replay(context, num_tokens - done)
            found = departure(replay, said)
            if found is None:
                return Verdict(ties=tuple(ties))
            before = [token for step in replay[: found.index] for token in step.tokens]
            finding = _finding(done + len(before), found, replay, said)
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
        """The target alone, from `context` on.

        Raises:
            TargetError: it gives no probabilities.
        """
        self.num_replays += 1
        body = {
            "prompt": list(context),
            "n_predict": num_tokens,
            "temperature": 0,
            "n_probs": _NUM_CANDIDATES,
            "return_tokens": True,
        }
        reply: dict[str, Any] = await self._client.json("POST", "/completion", body)
        try:
            shown = [_step(entry) for entry in reply["completion_probabilities"]]
            return aligned(shown, reply["tokens"])
        except (KeyError, TypeError) as error:
            raise TargetError(
                f"The target {self._client.name} gives no token probabilities."
            ) from error


def _step(entry: Mapping[str, Any]) -> Step:
    taken = _candidate(entry)
    top = map(_candidate, entry["top_logprobs"])
    return Step(taken, tuple(other for other in top if other.token != taken.token))


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    return Candidate(int(entry["id"]), bytes(entry["bytes"]), float(entry["logprob"]))


def _finding(position: int, found: Departure, replay: Sequence[Step], said: bytes) -> Finding:
    expected = replay[found.index].taken.piece if found.index < len(replay) else b""
    shown = found.said.piece if found.said is not None else said[found.offset :][:40]
    return Finding(
        position,
        expected.decode("utf-8", "replace"),
        shown.decode("utf-8", "replace"),
        found.gap,
    )
