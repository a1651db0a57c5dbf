"""A conversation that fills the server's context almost to its end."""

from specproxy.bench.answers import chat_body
from specproxy.equivalence.check import CheckResult, Comparison, Extent, Messages, Pair
from specproxy.errors import TargetError
from specproxy.target.facts import read_facts
from specproxy.target.tokens import TargetTokens

NAME = "context near its limit"
ROOM = 32
"""Tokens left free behind the answer: a llama-server that verifies proposals needs them."""
_QUESTION = "\n\nWhich item has the highest number, and what is said of it?"
_THINGS = ("a lamp", "a rope", "a barrel", "a map", "a bell", "a coat", "a net", "an oar")
_PLACES = ("on the shelf", "below deck", "in the harbour", "beside the door", "under the table")


async def near_limit(pair: Pair, extent: Extent) -> CheckResult:
    """A prompt that leaves room for the answer and little more."""
    facts = await read_facts(pair.front)
    num_prompt = facts.num_context - extent.num_tokens - ROOM
    if num_prompt > extent.longest_prompt:
        return CheckResult(
            NAME,
            skipped=f"a context of {facts.num_context} tokens; --longest-prompt"
            f" {num_prompt} fills it",
        )
    messages = await filling(TargetTokens(pair.control), num_prompt)
    comparison = Comparison(pair, extent.num_tokens)
    try:
        answer, _ = await comparison.check("a full context", messages)
    except TargetError as error:
        return CheckResult(NAME, comparison.compared, lacking=f"no answer: {error}")
    num_used = answer.num_prompt + answer.num_tokens
    return CheckResult(
        NAME,
        comparison.compared,
        evidence=f"{num_used} of {facts.num_context} tokens used at the end",
        lacking="" if num_used > 0.9 * facts.num_context else "the context was not filled",
    )


async def filling(tokens: TargetTokens, num_prompt: int) -> Messages:
    """A question whose prompt has as many tokens as fit into `num_prompt`."""

    async def length(num_items: int) -> int:
        return len(await tokens.chat_prompt(chat_body(_listed(num_items), 1)))

    fits, too_many = 0, 1
    while await length(too_many) <= num_prompt:
        fits, too_many = too_many, 2 * too_many
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if await length(middle) <= num_prompt:
            fits = middle
        else:
            too_many = middle
    return _listed(fits)


def _listed(num_items: int) -> Messages:
    lines = (
        f"Item {i}: {_THINGS[i % len(_THINGS)]} {_PLACES[i % len(_PLACES)]}."
        for i in range(1, num_items + 1)
    )
    return [{"role": "user", "content": "\n".join(lines) + _QUESTION}]
