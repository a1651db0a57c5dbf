"""What the target alone says to each prompt, asked for where it is not known yet."""

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge, Verdict
from specproxy.bench.stats import Answer
from specproxy.bench.workloads import Prompt
from specproxy.target.client import TargetClient


class References:
    """Compares answers with those of the target alone.

    Args:
        server: the target.
        known: its answers so far. What is lacking it is asked when it is needed: when all is
            measured, and nothing that it learns can matter any more.
    """

    def __init__(
        self, server: TargetClient, judge: Judge, num_tokens: int, known: dict[Prompt, Answer]
    ) -> None:
        self._server = server
        self._judge = judge
        self._num_tokens = num_tokens
        self._known = known

    async def verdict(self, prompt: Prompt, answer: Answer) -> Verdict:
        """Whether `answer` is the target's own."""
        reference = self._known.get(prompt)
        if reference is None:
            reference = await ask(self._server, prompt.messages, self._num_tokens)
            self._known[prompt] = reference
        return await self._judge.judge(
            prompt.messages, self._num_tokens, reference=reference, answer=answer
        )
