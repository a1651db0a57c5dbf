"""Seeded sampling: the same seed with and without speculation.

With the same seed and the same probabilities the same tokens are drawn. But the shape of a batch
changes the last bits of the probabilities on any engine, and where a draw falls just on the border
between two tokens, those bits decide. The two are then neighbours in the order in which the
sampler goes through the tokens, the likeliest first. So an answer that departs from the control's
counts as a *tie* there if both tokens are neighbours in that order, else as a difference; nothing
can be said of what follows. So it does where the control alone says just the same, word for word,
when its own batches have another shape. A generator that is out of step would depart nearly
everywhere, and mostly to tokens that are no neighbours; so more ties than `MOST_TIES` are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from specproxy.bench.answers import ask, chat_body
from specproxy.bench.equality import Departure, Step, departure
from specproxy.bench.judge import Verdict, finding_of
from specproxy.bench.replay import replay
from specproxy.bench.stats import Answer
from specproxy.bench.workloads import PROMPTS
from specproxy.equivalence.check import COLD, CheckResult, Compared, Extent, Messages, Pair
from specproxy.target.client import TargetClient
from specproxy.target.tokens import TargetTokens

TEMPERATURE = 0.8
MOST_TIES = 0.5
"""Of all seeds."""
NUM_CANDIDATES = 40
"""As many as llama.cpp's `top_k` leaves."""
_FIRST_SEED = 11


async def seeded(pair: Pair, extent: Extent) -> CheckResult:
    """The same seed with and without speculation."""
    (prompt,) = (one for one in PROMPTS if one.kind == "story")
    asking = partial(_Seeded, pair, prompt.messages, extent.num_tokens)
    seeds = range(_FIRST_SEED, _FIRST_SEED + extent.num_seeds)
    compared = [await asking(seed).compared() for seed in seeds]
    num_ties = sum(len(one.verdict.ties) for one in compared)
    num_texts = len({one.answer.text for one in compared})
    return CheckResult(
        "seeded sampling",
        compared,
        evidence=f"temperature {TEMPERATURE:g}, {extent.num_seeds} seeds, {num_texts} texts",
        lacking=_lacking(num_ties, num_texts, extent.num_seeds),
    )


@dataclass
class _Seeded:
    """One seed, asked of both."""

    pair: Pair
    messages: Messages
    num_tokens: int
    seed: int

    @property
    def fields(self) -> dict[str, Any]:
        return {"temperature": TEMPERATURE, "seed": self.seed}

    async def compared(self) -> Compared:
        answer = await self._ask(self.pair.front)
        right = await self._ask(self.pair.control)
        verdict = Verdict()
        if (answer.text, answer.num_tokens) != (right.text, right.num_tokens):
            verdict = await self._explained(answer)
        return Compared(f"seed {self.seed}", answer, verdict)

    async def _ask(self, client: TargetClient, **more: Any) -> Answer:
        return await ask(client, self.messages, self.num_tokens, fields={**self.fields, **more})

    async def _explained(self, answer: Answer) -> Verdict:
        control = self.pair.control
        context = await TargetTokens(control).chat_prompt(chat_body(self.messages, 1))
        steps = await replay(
            control,
            context,
            self.num_tokens,
            num_candidates=NUM_CANDIDATES,
            fields=self.fields,
        )
        verdict = drawn_verdict(steps, answer.text.encode())
        if verdict.difference is None or not await self._control_says(answer.text):
            return verdict
        return Verdict(ties=(verdict.difference,))

    async def _control_says(self, text: str) -> bool:
        """Whether it is what the control says, too, with its prompt read in another shape."""
        for more in (COLD, {}):
            if (await self._ask(self.pair.control, **more)).text == text:
                return True
        return False


def drawn_verdict(steps: Sequence[Step], said: bytes) -> Verdict:
    """Whether a sampled text is the control's, whose draws are `steps`; see the module."""
    found = departure(steps, said)
    if found is None:
        return Verdict()
    finding = finding_of(found.index, found, steps, said)
    return Verdict(ties=(finding,)) if _are_neighbours(steps, found) else Verdict(finding)


def _are_neighbours(steps: Sequence[Step], found: Departure) -> bool:
    """Whether the token said comes just before or after the one taken, the likeliest first."""
    if found.said is None or found.index >= len(steps):
        return False
    step = steps[found.index]
    order = sorted((step.taken, *step.others), key=lambda one: -one.logprob)
    taken = order.index(step.taken)
    return any(abs(order.index(one) - taken) == 1 for one in found.fitting)


def _lacking(num_ties: int, num_texts: int, num_seeds: int) -> str:
    if num_ties > MOST_TIES * num_seeds:
        return f"{num_ties} of {num_seeds} seeds depart: too many to be rounding"
    if num_seeds > 1 and num_texts == 1:
        return "all seeds gave one text, so nothing was sampled"
    return ""
