"""Greedy chats: one after the other, and several at once."""

import asyncio

from specproxy.bench.workloads import PROMPTS
from specproxy.equivalence.check import CheckResult, Comparison, Extent, Pair

NUM_CONCURRENT = 4


async def serial(pair: Pair, extent: Extent) -> CheckResult:
    """Prompts of many kinds, one after the other."""
    comparison = Comparison(pair, extent.num_tokens)
    for prompt in PROMPTS[: extent.num_prompts]:
        await comparison.check(prompt.kind, prompt.messages)
    return CheckResult("serial greedy", comparison.compared)


async def concurrent(pair: Pair, extent: Extent) -> CheckResult:
    """Four prompts of mixed length at once, each against itself alone."""
    comparison = Comparison(pair, extent.num_tokens)
    # Prompts that the serial check has not asked, the shortest to the longest of them.
    rest = sorted(PROMPTS[extent.num_prompts :], key=lambda one: sum(map(len, one.turns)))
    step = max(1, (len(rest) - 1) // (NUM_CONCURRENT - 1))
    prompts = rest[::step][:NUM_CONCURRENT]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(comparison.through(one.messages), name="ask") for one in prompts]
    for prompt, task in zip(prompts, tasks, strict=True):
        right = await comparison.alone(prompt.messages)
        await comparison.judge(prompt.kind, prompt.messages, task.result(), right)
    lengths = sorted(one.answer.num_prompt for one in comparison.compared)
    return CheckResult(
        "four at once",
        comparison.compared,
        evidence=f"prompts of {', '.join(map(str, lengths))} tokens",
    )
