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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

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
BATCH_TOKENS = 512
"""Of a prompt that llama-server reads in one pass at most (`--ubatch-size`, by default)."""


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
    arms: Sequence[Arm],
    prompts: Sequence[Prompt],
    *,
    num_tokens: int,
    set_link: Callable[[], Awaitable[None]] | None = None,
) -> list[WarmUp]:
    """Warm all arms, side by side where that teaches them nothing wrong.

    Token counts are run where the link makes that worth while, chats are held in any case.

    Args:
        num_tokens: of the answers to come.
        set_link: where the link is a quick one so far: all token counts are run on that, then
            this is called to make it the one that is measured, then the chats are held, so that
            whoever adapts to the link has met it.
    """
    server = arms[0].server
    lengths: set[int] = set()
    if set_link is not None or await (await _warmer(server)).pays(_PROBED_LENGTH):
        lengths = await prompt_lengths(server, [*WARM_UPS, *prompts])
    counts = [sorted(lengths | verified_lengths(arm)) if lengths else [] for arm in arms]
    ran_s = await _side_by_side(
        [_run_lengths(arm, mine) for arm, mine in zip(arms, counts, strict=True)]
    )
    if set_link is not None:
        await set_link()
    held_s = await _hold_chats(arms, num_tokens)
    return [
        WarmUp(ran + held, arm.ready_s, len(mine), len(WARM_UPS))
        for arm, mine, ran, held in zip(arms, counts, ran_s, held_s, strict=True)
    ]


async def _side_by_side(works: Sequence[Coroutine[Any, Any, None]]) -> list[float]:
    """Do all; how long each took, in seconds."""

    async def timed(work: Coroutine[Any, Any, None]) -> float:
        started_s = time.monotonic()
        await work
        return time.monotonic() - started_s

    tasks = [spawn(timed(work), name="warm an arm") for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            await stop(task)


async def _run_lengths(arm: Arm, lengths: Sequence[int]) -> None:
    warmer = await _warmer(arm.server)
    for length in lengths:
        await warmer.run(length)


async def _hold_chats(arms: Sequence[Arm], num_tokens: int) -> list[float]:
    """Hold the chats with all; how long each took. A proxy learns from them whether seeds pay and
    how far to draft, so it has the machine for itself, as it will be measured."""
    direct = [arm for arm in arms if arm.name != "specproxy"]
    held = await _side_by_side([_hold_with(arm, num_tokens) for arm in direct])
    held_s = {arm.label: seconds for arm, seconds in zip(direct, held, strict=True)}
    for arm in arms:
        if arm.label not in held_s:
            (held_s[arm.label],) = await _side_by_side([_hold_with(arm, num_tokens)])
    return [held_s[arm.label] for arm in arms]


async def _hold_with(arm: Arm, num_tokens: int) -> None:
    for prompt in WARM_UPS:
        await ask(arm.front, prompt.messages, min(num_tokens, _MAX_WARM_CHAT_TOKENS))


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
    return {num_tokens for length in lengths for num_tokens in passes_of(length)}


def passes_of(num_prompt: int) -> set[int]:
    """Token counts of the passes that read so many tokens of a prompt."""
    whole = {BATCH_TOKENS} if num_prompt >= BATCH_TOKENS else set()
    rest = num_prompt % BATCH_TOKENS
    return whole | ({rest} if rest else set())
