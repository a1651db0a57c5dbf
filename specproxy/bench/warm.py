"""Warm-up, alike for every arm, before anything is measured.

On a slow link the first pass of a new token count costs some round trips more, in every server:
decoding, verifying and reading prompts.
Invariant: every arm has run every token count that its answers may need: the lengths of prompts
all arms, the lengths of verifications those that verify (the proxy sees to its own).
"""

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.bench.answers import ask, chat_body
from specproxy.bench.arms import Arm
from specproxy.bench.workloads import WARM_UPS, Prompt
from specproxy.core.prefix import common_prefix
from specproxy.core.tasks import spawn, stop
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.target.tokens import TargetTokens
from specproxy.target.warmup import Warmer

_SEED = 20
_PROBED_LENGTH = 29
_MAX_WARM_CHAT_TOKENS = 48


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What was done before an arm was measured.

    Attributes:
        seconds: it took, without starting the arm.
        ready_s: the proxy's own start took, see `Arm.ready_s`.
        num_lengths: token counts run.
        num_chats: chats held.
    """

    seconds: float
    ready_s: float
    num_lengths: int
    num_chats: int


async def warm_up(
    arms: Sequence[Arm], prompts: Sequence[Prompt], *, num_tokens: int
) -> list[WarmUp]:
    """Warm all arms, side by side, for nothing is measured yet.

    Token counts are run where the link makes that worth while, chats are held in any case.

    Args:
        num_tokens: of the answers to come.
    """
    warmer = await _warmer(arms[0].server)
    lengths: set[int] = set()
    if await warmer.pays(_PROBED_LENGTH):
        lengths = await prompt_lengths(arms[0].server, [*WARM_UPS, *prompts])
    tasks = [
        spawn(
            _warm(arm, sorted(lengths | verified_lengths(arm)) if lengths else (), num_tokens),
            name=f"warm {arm.label}",
        )
        for arm in arms
    ]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            await stop(task)


async def _warm(arm: Arm, lengths: Sequence[int], num_tokens: int) -> WarmUp:
    started_s = time.monotonic()
    warmer = await _warmer(arm.server)
    for length in lengths:
        await warmer.run(length)
    for prompt in WARM_UPS:
        await ask(arm.front, prompt.messages, min(num_tokens, _MAX_WARM_CHAT_TOKENS))
    seconds = time.monotonic() - started_s
    return WarmUp(seconds, arm.ready_s, len(lengths), len(WARM_UPS))


def verified_lengths(arm: Arm) -> set[int]:
    """Token counts of the passes that decode in an arm without a proxy."""
    return set(range(1, (arm.draft_n or 0) + 2))


async def _warmer(server: TargetClient) -> Warmer:
    facts = await read_facts(server)
    return Warmer(
        server,
        seed_slot=facts.num_slots - 1,
        num_vocab=facts.num_vocab,
        rng=random.Random(_SEED),
    )


async def prompt_lengths(server: TargetClient, prompts: Sequence[Prompt]) -> set[int]:
    """How many tokens reading each prompt may take: all of it, or what follows the beginning it
    shares with one that is in the slot's cache."""
    tokens = TargetTokens(server)
    read = [await tokens.chat_prompt(chat_body(prompt.messages, 1)) for prompt in prompts]
    lengths = {len(ids) for ids in read}
    for ids, other in itertools.permutations(read, 2):
        lengths.add(max(1, len(ids) - common_prefix(ids, other)))
    return lengths
