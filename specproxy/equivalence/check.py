"""What a check compares, and what it finds.

Invariant: a check passes only if every answer is the control's own, near-ties apart, *and* what it
is about really happened: a check of the prefix cache in which nothing was reused has not passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge, Verdict
from specproxy.bench.stats import Answer
from specproxy.target.client import TargetClient

Messages = Sequence[dict[str, str]]
COLD = {"cache_prompt": False}
"""Of a request whose prompt is to be read from its first token on."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two that must say the same.

    Attributes:
        title: how the first one speculates.
        front: the one that is checked.
        control: the same target without speculation.
    """

    title: str
    front: TargetClient
    control: TargetClient


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is checked.

    Attributes:
        num_tokens: limit of most answers.
        num_prompts: of the serial check.
        num_seeds: of the sampling check.
        longest_prompt: tokens; a longer context is not filled to its end.
    """

    num_tokens: int = 48
    num_prompts: int = 6
    num_seeds: int = 6
    longest_prompt: int = 8192


@dataclass(frozen=True, slots=True)
class Compared:
    """One answer and what became of it."""

    label: str
    answer: Answer
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    Attributes:
        evidence: what really happened, by the server's own counts.
        lacking: what did not happen although the check is about it; empty if all did.
        skipped: why it was not run; empty if it was.
    """

    name: str
    compared: Sequence[Compared] = ()
    evidence: str = ""
    lacking: str = ""
    skipped: str = ""

    @property
    def identical(self) -> bool:
        """Whether every answer is the control's own, near-ties apart."""
        return all(one.verdict.identical for one in self.compared)

    @property
    def passed(self) -> bool:
        return self.identical and not self.lacking

    @property
    def num_ties(self) -> int:
        return sum(len(one.verdict.ties) for one in self.compared)

    @property
    def num_proposed(self) -> int:
        """Drafted tokens that the target verified."""
        return sum(one.answer.num_proposed for one in self.compared)

    @property
    def num_accepted(self) -> int:
        """Those of them that it took."""
        return sum(one.answer.num_accepted for one in self.compared)


@dataclass
class Comparison:
    """Greedy chats of both, compared one by one."""

    pair: Pair
    num_tokens: int
    compared: list[Compared] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._judge = Judge(self.pair.control)

    async def alone(self, messages: Messages) -> Answer:
        """What the control says, its prompt read anew."""
        return await ask(self.pair.control, messages, self.num_tokens, fields=COLD)

    async def through(self, messages: Messages) -> Answer:
        """What the one that is checked says."""
        return await ask(self.pair.front, messages, self.num_tokens)

    async def judge(self, label: str, messages: Messages, answer: Answer, right: Answer) -> None:
        """Keep `answer` with what is to be said of it, beside the control's `right` one."""
        verdict = await self._judge.judge(messages, self.num_tokens, reference=right, answer=answer)
        self.compared.append(Compared(label, answer, verdict))

    async def check(self, label: str, messages: Messages) -> tuple[Answer, Answer]:
        """Ask both, the one that is checked first; both answers."""
        answer, right = await self.through(messages), await self.alone(messages)
        await self.judge(label, messages, answer, right)
        return answer, right


def num_reused(answer: Answer) -> int:
    """Tokens of its prompt that the server had in its cache, by its own counts."""
    return answer.num_prompt - answer.num_prompt_read
