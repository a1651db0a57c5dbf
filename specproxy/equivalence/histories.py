"""Conversations whose beginning the server has read before: continued, edited, shortened.

The control reads each prompt from its first token on, so a cache that holds what it should not
shows as a difference. That tokens were reused is proven by the server's own counts.
"""

from collections.abc import Sequence

from specproxy.bench.stats import Answer
from specproxy.equivalence.check import (
    CheckResult,
    Comparison,
    Extent,
    Messages,
    Pair,
    num_reused,
)

_TEXT = (
    "The ferry between the two islands leaves at six in the morning and at four in the afternoon. "
    "In winter the second crossing is left out when the wind is too strong. A ticket costs nine "
    "crowns, children travel free, and a bicycle is two crowns more. The crossing takes fifty "
    "minutes. Behind the bridge there is a small kitchen that sells soup, bread and tea, and a "
    "shelf of books that passengers may borrow and return on the way back."
)
_QUESTION = f"Here is a note about a ferry:\n\n{_TEXT}\n\nWhen does it leave?"
_NEXT = "And what may passengers borrow on board? Answer in one sentence."
_EDITED = "It leaves at seven in the morning, and there is no other crossing."
_OTHER = "How long does the crossing take, and what does it cost for a family with two bicycles?"
_LEAST_REUSED = 0.5
"""Of the beginning that two prompts share; templates may change the rest of it."""


async def continued(pair: Pair, extent: Extent) -> CheckResult:
    """A second turn: its beginning from the cache, against all of it read anew."""
    comparison = Comparison(pair, extent.num_tokens)
    first = await comparison.through(_said(_QUESTION))
    hit, cold = await comparison.check("second turn", _said(_QUESTION, first.text, _NEXT))
    again, cold_again = await comparison.check("asked again", _said(_QUESTION, first.text, _NEXT))
    evidence = (
        f"reused {num_reused(hit)} of {hit.num_prompt} prompt tokens, asked again"
        f" {num_reused(again)}; control {max(num_reused(cold), num_reused(cold_again))}"
    )
    return CheckResult(
        "prefix-cache hit against cold",
        comparison.compared,
        evidence=evidence,
        lacking=_not_reused(first, [hit, again], [cold, cold_again]),
    )


async def rewritten(pair: Pair, extent: Extent) -> CheckResult:
    """A conversation whose past is edited, then cut off, then as it was."""
    comparison = Comparison(pair, extent.num_tokens)
    first = await comparison.through(_said(_QUESTION))
    whole = _said(_QUESTION, first.text, _NEXT)
    answers = []
    for label, messages in (
        ("as it was", whole),
        ("an answer edited", _said(_QUESTION, _EDITED, _NEXT)),
        ("shortened, asked otherwise", _said(_QUESTION, first.text, _OTHER)),
        ("shortened to its start", _said(_QUESTION)),
        ("as it was, again", whole),
    ):
        answers.append(await comparison.check(label, messages))
    reused = ", ".join(str(num_reused(answer)) for answer, _ in answers)
    return CheckResult(
        "edited and shortened histories",
        comparison.compared,
        evidence=f"reused {reused} prompt tokens",
        lacking=_not_reused(first, [one for one, _ in answers], [cold for _, cold in answers]),
    )


def _said(*turns: str) -> Messages:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]


def _not_reused(first: Answer, hits: Sequence[Answer], colds: Sequence[Answer]) -> str:
    if any(num_reused(hit) < _LEAST_REUSED * first.num_prompt for hit in hits):
        return "the prefix cache was not used, so nothing of it was checked"
    if any(num_reused(cold) > 0 for cold in colds):
        return "the control did not read its prompts anew, though it was asked to"
    return ""
