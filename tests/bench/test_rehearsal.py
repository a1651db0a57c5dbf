"""What is recorded along an answer is what a proxy may ask for."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.recorded import Context, RecordedDrafter, Recording
from specproxy.bench.rehearsal import AHEAD_TOKENS, LIKELY, record, rehearse
from specproxy.bench.runner import BenchOptions, run
from specproxy.bench.workloads import PROMPTS
from specproxy.testing import Language, ScriptedDrafter
from specproxy.testing.drafter import Behaviour, empty, perfect

LANGUAGE = Language(mean_length=60)
OTHER = replace(LANGUAGE, key=1)
OPTIONS = BenchOptions(num_tokens=24, pause_s=0.0)


def often_wrong(language: Language, tokens: Any, num_tokens: int) -> list[Any]:
    """As another model would say it every third token: the same in the same context."""
    context, drafted = list(tokens), []
    while len(drafted) < num_tokens:
        drafted += perfect(OTHER if len(context) % 3 == 0 else language, context, 1)
        context.append(drafted[-1].token)
        if language.vocabulary.is_end(context[-1]):
            break
    return drafted


def drafter_of(behaviour: Behaviour) -> RecordedDrafter:
    return RecordedDrafter(ScriptedDrafter(LANGUAGE, behaviour), Recording(), 0.0)


@pytest.mark.parametrize("behaviour", [perfect, often_wrong])
async def test_after_every_prefix_the_line_is_known(behaviour: Behaviour) -> None:
    drafter = drafter_of(behaviour)
    language = replace(LANGUAGE, mean_length=0)
    prompt = language.vocabulary.tokenize("Hello sea")
    answer = [one.token for one in perfect(language, prompt, 20)]
    await record(drafter, prompt, answer)
    real = drafter.real
    assert isinstance(real, ScriptedDrafter)
    assert real.num_open == 0
    num_calls = len(real.calls)
    with closing(drafter.open()) as sequence:
        for num_said in range(len(answer) + 1):
            context = [*prompt, *answer[:num_said]]
            line = await sequence.draft(context, AHEAD_TOKENS)
            assert line == behaviour(LANGUAGE, context, AHEAD_TOKENS)
    assert len(real.calls) == num_calls
    assert drafter.num_holes == 0


async def test_likely_alternatives_beside_the_answer_are_known() -> None:
    drafter = drafter_of(perfect)
    prompt = LANGUAGE.vocabulary.tokenize("Hello sea")
    answer = [one.token for one in perfect(LANGUAGE, prompt, 20)]
    await record(drafter, prompt, answer)
    num_branches = 0
    for num_said in range(len(answer)):
        context = [*prompt, *answer[:num_said]]
        (here,) = perfect(LANGUAGE, context, 1)
        for token, probability in here.alternatives:
            known = drafter.recording.after(Context([*context, token]))
            assert (known is not None) == (probability >= LIKELY)
            num_branches += known is not None
    assert num_branches


async def test_what_is_recorded_is_not_drafted_again() -> None:
    drafter = drafter_of(often_wrong)
    prompt = LANGUAGE.vocabulary.tokenize("Hello sea")
    answer = [one.token for one in perfect(replace(LANGUAGE, mean_length=0), prompt, 20)]
    await record(drafter, prompt, answer)
    real, num_known = drafter.real, len(drafter.recording)
    assert isinstance(real, ScriptedDrafter)
    num_calls = len(real.calls)
    await record(drafter, prompt, answer[:12])
    assert num_known > 20
    assert (len(real.calls), len(drafter.recording)) == (num_calls, num_known)


async def test_a_draft_that_says_nothing_ends_it() -> None:
    drafter = drafter_of(empty)
    await record(drafter, [1, 2], [3, 4])
    assert len(drafter.recording) == 0


async def test_the_target_keeps_nothing_of_it(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(LANGUAGE)
    drafter = drafter_of(perfect)
    link = Restored()
    arms = [
        replace(plain, link=link),
        replace(plain, name="specproxy", label="recorded", recorded=drafter),
    ]
    await rehearse(arms, PROMPTS[:2], 8)
    assert len(drafter.recording) > 16
    assert link.changes == [0.0, 80.0]
    for prompt in PROMPTS[:2]:  # (beginnings that they share may be cached)
        answer = await ask(plain.front, prompt.messages, 8)
        assert answer.num_prompt_read > answer.num_prompt // 2
    untouched = Restored()
    await rehearse([replace(plain, link=untouched)], PROMPTS[:2], 8)
    assert untouched.changes == []


class Restored:
    """A link that remembers what it was set to."""

    def __init__(self) -> None:
        self.rtt_ms = 80.0
        self.changes: list[float] = []

    async def set_rtt_ms(self, rtt_ms: float) -> None:
        self.rtt_ms = rtt_ms
        self.changes.append(rtt_ms)


async def test_a_measured_arm_with_a_recorded_draft(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(LANGUAGE)
    drafter = drafter_of(perfect)
    made = await scripted_arms.proxied(LANGUAGE, drafter, pass_ms=10.0)
    proxied = replace(made, recorded=drafter)
    results = await run([plain, proxied], PROMPTS[:3], OPTIONS)
    assert all(result.identical for result in results)
    assert results[0].tally is None
    # how much of it is drafted is the policy's business, and a matter of time
    assert drafter.num_recorded + drafter.num_holes > 0
    assert results[1].proxy_counts["num_recorded"] <= drafter.num_recorded
    assert results[1].proxy_counts["num_holes"] <= drafter.num_holes
    tally = results[1].tally
    assert tally is not None
    assert tally.num_answers == 3
    assert tally.num_tokens == results[1].summary.num_tokens
