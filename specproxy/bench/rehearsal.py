"""Fills a recording: what the real draft says along the target's answers, before anything counts.

After every prefix of an answer the draft's own line is needed for as far as a proxy may look ahead,
also where it leaves the answer; and beside the answer the line's likely alternatives, for those
are drafted as branches. What a proxy drafts beyond that is a hole in the recording.

Invariant: no server that is measured learns or keeps anything of it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from specproxy.bench.answers import chat_body
from specproxy.bench.arms import Arm
from specproxy.bench.recorded import Context, RecordedDrafter
from specproxy.bench.workloads import Prompt
from specproxy.core.drafted import DraftToken
from specproxy.core.prefix import common_prefix
from specproxy.draft.protocol import DraftSequence
from specproxy.target.facts import read_facts
from specproxy.target.seeding import plant
from specproxy.target.tokens import TargetTokens

AHEAD_TOKENS = 24
"""From where the draft leaves the answer on: proxies seldom go on for longer where it is unsure."""
BRANCH_TOKENS = 8
LIKELY = 0.05
"""An alternative less likely than that is no branch."""
NUM_LANES = 4
"""Answers recorded at a time; a draft has room for so many."""
Said = tuple[list[int], list[int]]
"""Ids of a prompt, and of what the target says to it."""


async def rehearse(arms: Sequence[Arm], prompts: Sequence[Prompt], num_tokens: int) -> None:
    """Record what the arms with a recorded draft will need; they share one recording.

    Args:
        arms: the target alone first: it is asked for the answers, without delay.

    Raises:
        TargetError: it failed.
    """
    drafter = next((arm.recorded for arm in arms if arm.recorded is not None), None)
    if drafter is None:
        return
    answers = await _answers(arms[0], prompts, num_tokens)
    async with asyncio.TaskGroup() as lanes:  # what is drafted side by side shares its steps
        for lane in range(NUM_LANES):
            lanes.create_task(_record_all(drafter, answers[lane::NUM_LANES]), name="record")


async def _record_all(drafter: RecordedDrafter, answers: Sequence[Said]) -> None:
    for prompt, answer in answers:
        await record(drafter, prompt, answer)


async def record(drafter: RecordedDrafter, prompt: Sequence[int], answer: Sequence[int]) -> None:
    """Record the draft along one answer."""
    recording = drafter.recording
    with closing(drafter.real.open()) as sequence:
        num_said = 0
        while num_said <= len(answer):
            context, rest = [*prompt, *answer[:num_said]], answer[num_said:]
            line = await _line(drafter, sequence, context, rest)
            recording.learn(context, line)
            num_said += _num_agreed(line, rest) + 1  # then from the target's own token on
        for num_said, said in enumerate(answer):
            context = [*prompt, *answer[:num_said]]
            here = recording.after(Context(context))
            for token, probability in here.alternatives if here is not None else ():
                branched = [*context, token]
                is_known = recording.after(Context(branched)) is not None
                if probability >= LIKELY and token != said and not is_known:
                    recording.learn(branched, await sequence.draft(branched, BRANCH_TOKENS))


async def _line(
    drafter: RecordedDrafter,
    sequence: DraftSequence,
    context: Sequence[int],
    answer: Sequence[int],
) -> list[DraftToken]:
    """What the draft says after `context`, until it has left `answer` long ago, or has ended it."""
    line: list[DraftToken] = []
    while len(line) - _num_agreed(line, answer) < AHEAD_TOKENS:
        so_far = [*context, *(one.token for one in line)]
        more = drafter.recording.line(so_far, AHEAD_TOKENS)
        more = more or await sequence.draft(so_far, AHEAD_TOKENS)
        line += more
        if not more or drafter.vocabulary.is_end(more[-1].token):
            break
    return line


def _num_agreed(line: Sequence[DraftToken], answer: Sequence[int]) -> int:
    return common_prefix([one.token for one in line], list(answer))


async def _answers(target: Arm, prompts: Sequence[Prompt], num_tokens: int) -> list[Said]:
    """What the target says to each prompt, without delay."""
    server = target.server
    slot = (await read_facts(server)).seed_slot
    tokens = TargetTokens(server)
    found: list[Said] = []
    async with target.without_delay():
        for prompt in prompts:
            read = await tokens.chat_prompt(chat_body(prompt.messages, num_tokens))
            body = {
                "prompt": read,
                "n_predict": num_tokens,
                "temperature": 0,
                "return_tokens": True,
                "cache_prompt": False,
                "id_slot": slot,
            }
            reply: dict[str, Any] = await server.json("POST", "/completion", body)
            found.append((read, list(reply["tokens"])))
        await plant(server, found[0][0][:1], seed_slot=slot)  # or it would know the last prompt
    return found
