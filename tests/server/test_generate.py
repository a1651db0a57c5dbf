"""What the target alone would have said, whatever the draft says."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from specproxy.testing import Language, ScriptedDrafter, drafter, generate, until
from specproxy.testing.drafter import Behaviour
from specproxy.testing.rig import Rig, proxied

KINDS = ("chat", "completions", "native")
DRAFTS: dict[str, Callable[[], Behaviour]] = {
    "good": lambda: drafter.perfect,
    "noisy": lambda: drafter.noisy(0.3, random.Random(1)),
    "adversarial": lambda: drafter.adversarial,
    "babbling": lambda: drafter.babbling(random.Random(2)),
    "empty": lambda: drafter.empty,
    "repeating": lambda: drafter.repeats_last,
    "half right": lambda: drafter.right_then_wrong(2),
    "miscounting": lambda: drafter.miscounting(3),
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "hot": {"temperature": 1.2, "seed": 7, "top_p": 1.0, "min_p": 0.0},
}


def asking(kind: str, text: str = "Tell me of the sea", **more: Any) -> dict[str, Any]:
    """A request of this kind, for at most 40 tokens."""
    if kind == "chat":
        return {"messages": [{"role": "user", "content": text}], "max_tokens": 40, **more}
    return {"prompt": text, "n_predict" if kind == "native" else "max_tokens": 40, **more}


async def check_equal(rig: Rig, kind: str, body: dict[str, Any]) -> None:
    """Through the proxy and alone: the same answer; the proxy's was speculated for."""
    num_before = rig.server.route.counts.num_answers
    got = await rig.ask(kind, body)
    assert got == await rig.alone(kind, body)
    await until(lambda: rig.server.route.counts.num_answers > num_before)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", DRAFTS)
async def test_every_draft_gives_the_same_answer(name: str, sampling: str) -> None:
    async with proxied(Language(thinks=True), DRAFTS[name](), pass_ms=0.7) as rig:
        for kind in KINDS:
            for stream in (True, False):
                more = {"stream_options": {"include_usage": True}} if stream else {}
                body = asking(kind, stream=stream, **SAMPLINGS[sampling], **more)
                await check_equal(rig, kind, body)
        await rig.rest()


async def test_a_dead_draft_leaves_the_answer_to_the_target() -> None:
    dead = ScriptedDrafter(fail_after_calls=0)
    async with proxied(drafter=dead) as rig:
        for kind in KINDS:
            body = asking(kind, temperature=0)
            assert await rig.ask(kind, body) == await rig.alone(kind, body)
            await rig.rest()
        assert not dead.alive


@pytest.mark.parametrize("num_calls", [1, 3, 6])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_draft_that_dies_on_the_way(kind: str, num_calls: int) -> None:
    dying = ScriptedDrafter(fail_after_calls=num_calls)
    async with proxied(drafter=dying, pass_ms=1.0) as rig:
        body = asking(kind, temperature=0, stream=True)
        await check_equal(rig, kind, body)
        assert not dying.alive
        assert (await rig.ask(kind, body)).headers["x-specproxy-mode"] == "passthrough"
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
async def test_speculation_happens(stream: bool) -> None:
    async with proxied(Language(mean_length=0), probed=True, pass_ms=10.0) as rig:
        body = asking("native", temperature=0, stream=stream) | {"n_predict": 80}
        await check_equal(rig, "native", body)
        await rig.rest()
        counts = rig.server.route.counts
        assert counts.num_accepted > 10
        assert counts.num_generated == 80
        assert counts.tokens_per_pass is not None
        assert counts.tokens_per_pass > 1.5
        num_passes = sum(0 in one.emitted or 1 in one.emitted for one in rig.target.passes)
        assert num_passes < 80


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_limits_and_stop_strings(kind: str, stream: bool) -> None:
    async with proxied(Language(thinks=True), pass_ms=0.3) as rig:
        limit = "n_predict" if kind == "native" else "max_tokens"
        for count in (0, 1, 2, 17):
            body = asking(kind, temperature=0, stream=stream) | {limit: count}
            assert await rig.ask(kind, body) == await rig.alone(kind, body), count
        for stop in ([" the"], ["sea", "s", "."], ["er"], "ing", ["no such"], ["> "]):
            body = asking(kind, "Go on", temperature=0, stream=stream, stop=stop)
            assert await rig.ask(kind, body) == await rig.alone(kind, body), stop


@pytest.mark.parametrize("kind", ["chat", "completions"])
async def test_a_stop_string_is_assembled_without_asking_twice(kind: str) -> None:
    text = "Hello world. The lighthouse"
    language = Language().with_script("Hi", text, chat=True).with_script("Hi", text)
    async with proxied(language) as rig:
        body = asking(kind, "Hi", temperature=0, stop=["light"])
        await check_equal(rig, kind, body)
        asked = [one for one in rig.target.requests if one.json and "stop" in one.json]
        assert len([one for one in asked if one.generates]) == 1


async def test_an_answer_that_cannot_be_assembled_is_asked_for_again() -> None:
    text = "Hello 😀"
    language = Language().with_script("Hi", text)
    async with proxied(language) as rig:
        body = asking("native", "Hi", temperature=0) | {"n_predict": 4}  # within the emoji
        got = await rig.ask("native", body)
        assert got == await rig.alone("native", body)
        await rig.rest()


async def test_a_hot_answer_differs_by_seed_and_not_by_proxy() -> None:
    async with proxied(pass_ms=0.3) as rig:
        answers = []
        for seed in (1, 2, 1):
            body = asking("chat", **SAMPLINGS["hot"] | {"seed": seed})
            got = await rig.ask("chat", body)
            assert got == await rig.alone("chat", body)
            answers.append(got.content["choices"])
    assert answers[0] == answers[2] != answers[1]


@pytest.mark.load
async def test_unseeded_answers_have_the_targets_distribution() -> None:
    """Two tokens at temperature 1; the second one's draft is seeded before it is drawn."""
    from scipy.stats import chi2_contingency  # (a second, of whoever collects this file)

    async with proxied(Language(mean_length=0), probed=True, random_seed=5) as rig:
        body = asking("native", "It", temperature=1.0, return_tokens=True, stream=False)
        body |= {"n_predict": 2, "top_p": 1.0, "min_p": 0.0}
        counts: list[Counter[tuple[int, ...]]] = []
        for ask in (rig.ask, rig.alone):
            tally: Counter[tuple[int, ...]] = Counter()
            for _ in range(12):
                answers = await asyncio.gather(*(ask("native", body) for _ in range(25)))
                tally.update(tuple(answer.json["tokens"]) for answer in answers)
            counts.append(tally)
        assert rig.server.route.counts.num_seeded > 0
    both = counts[0] + counts[1]
    usual = [outcome for outcome, count in both.items() if count >= 10]
    table = [[tally[outcome] for outcome in usual] for tally in counts]
    for row, tally in zip(table, counts, strict=True):
        row.append(tally.total() - sum(row) + 1)
    assert len(usual) > 2
    assert chi2_contingency(table).pvalue > 1e-4


async def test_sessions_do_not_mix() -> None:
    async with proxied(Language(), drafter.noisy(0.1, random.Random(3)), pass_ms=0.5) as rig:
        bodies = [
            (kind, asking(kind, f"Tell me of {i}", temperature=0, stream=bool(i % 2)))
            for i, kind in enumerate(KINDS * 4)
        ]
        answers = await asyncio.gather(*(rig.ask(kind, body) for kind, body in bodies))
        for answer, (kind, body) in zip(answers, bodies, strict=True):
            assert answer == await rig.alone(kind, body)
        await rig.rest()
        slots = {
            one.json["id_slot"] for one in rig.target.requests if one.generates and one.streams
        }
        assert slots == {0, 1, 2}


async def test_a_conversation_gets_its_slot_and_its_cache_back() -> None:
    async with proxied() as rig:
        talks: dict[str, list[dict[str, str]]] = {
            subject: []
            for subject in ("The sea is deep. " * 3, "An old stone. " * 4, "Birds! " * 9)
        }
        for turn in range(3):
            for subject, messages in talks.items():
                messages.append({"role": "user", "content": f"{subject} {turn}"})
                body = {"messages": messages, "temperature": 0, "max_tokens": 12}
                answer = await rig.ask("chat", body)
                await rig.rest()
                messages.append(answer.json["choices"][0]["message"])
        asked = [one.json for one in rig.target.requests if one.generates and one.streams]
        slots = [one["id_slot"] for one in asked]
        assert slots == slots[:3] * 3
        assert len(set(slots[:3])) == 3
        assert answer.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 30


async def test_the_oracle_is_the_language() -> None:
    """What `alone` says is `generate`; so the comparisons above are with the truth."""
    language = Language(mean_length=0)
    async with proxied(language) as rig:
        prompt = list(range(280, 300))
        body = {"prompt": prompt, "n_predict": 30, "temperature": 0, "return_tokens": True}
        got = await rig.ask("native", body)
        assert got.json["tokens"] == generate(language, prompt, max_tokens=30)
