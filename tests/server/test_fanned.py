"""Fan-out before a scripted target: same answers as the target's own, in fewer passes."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from specproxy.core.tasks import spawn
from specproxy.fanned import LONGEST_WAIT, TOKEN_S
from specproxy.testing import Language, drafter, until
from specproxy.testing.rig import Answer, Rig, proxied

MODE = "x-specproxy-mode"
GREEDY = {"temperature": 0, "max_tokens": 40}
CHAT = {"messages": [{"role": "user", "content": "Tell me of the lighthouse."}], **GREEDY}
TEXT = {"prompt": "The lighthouse stood", **GREEDY}
NATIVE = {"prompt": "The lighthouse stood", "temperature": 0, "n_predict": 60}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
BODIES = {"chat": CHAT, "completions": TEXT, "native": NATIVE}
BEHAVIOURS = {
    "perfect": drafter.perfect,
    "noisy": drafter.noisy(0.3, random.Random(1)),
    "adversarial": drafter.adversarial,
    "babbling": drafter.babbling(random.Random(2)),
    "empty": drafter.empty,
}


@asynccontextmanager
async def fanning(
    behaviour: drafter.Behaviour = drafter.perfect, language: Language | None = None, **flags: Any
) -> AsyncIterator[Rig]:
    flags = {"num_slots": 10, "has_ngram_pool": False, **flags}
    settings = {"fanout": {"warm": "never"}, **flags.pop("settings", {})}
    async with proxied(language or Language(), behaviour, settings=settings, **flags) as rig:
        yield rig


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_answers_equal_the_targets_own(name: str, kind: str) -> None:
    async with fanning(BEHAVIOURS[name], probed=True) as rig:
        for streamed in (False, True):
            body = {**BODIES[kind], "stream": streamed}
            got = await rig.ask(kind, body)
            assert got == await rig.alone(kind, body)
            assert got.headers[MODE] == "fanout"
        await until(rig.at_rest)


async def test_a_round_waits_for_no_draft_that_has_nothing_to_say() -> None:
    async with fanning(drafter.empty) as rig:
        await rig.ask("native", NATIVE)
        observed = rig.server.route.observed.total
        assert observed.wait_s < observed.num_passes * LONGEST_WAIT * TOKEN_S  # for one token each


async def test_what_the_draft_does_is_observed() -> None:
    async with fanning() as rig:
        await rig.ask("native", NATIVE)
        route = rig.server.route
        assert route.observed.total.draft_s > 0
        assert 0 < route.observed.draft_token_s.num_values <= route.counts.num_drafted


async def test_rounds_are_fewer_than_tokens() -> None:
    async with fanning(language=Language(mean_length=0), pass_ms=20) as rig:
        answer = await rig.ask("native", NATIVE)
        num_tokens = answer.json["tokens_predicted"]
        assert num_tokens > 30
        assert len(rig.target.passes) < num_tokens / 2


@pytest.mark.parametrize(
    "more",
    [
        {"stop": ["light"]},
        {"stop": ["ou", "the"]},
        {"n_predict": 1},
        {"n_predict": 2},
        {"n_predict": 7},
        {"n_predict": 400},
        {"ignore_eos": True},
        {"timings_per_token": True},
        {"return_tokens": True},
        {"seed": 5},
        {"top_k": 3},
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_ends_are_exact(more: dict[str, Any], streamed: bool) -> None:
    async with fanning(drafter.noisy(0.2, random.Random(3)), Language(mean_length=40)) as rig:
        for number in range(4):
            body = {**NATIVE, "prompt": f"Number {number}", **more, "stream": streamed}
            got = await rig.ask("native", body)
            assert got == await rig.alone("native", body)
            assert got.headers[MODE] == "fanout"


@pytest.mark.parametrize("more", [{}, {"reasoning_format": "none"}])
async def test_chats_with_reasoning_are_left_to_the_target(more: dict[str, Any]) -> None:
    async with fanning(language=Language(thinks=True)) as rig:
        assert "chats pass through" in rig.server.route.reason
        for streamed in (False, True):
            body = {**CHAT, **more, "stream": streamed}
            got = await rig.ask("chat", body)
            assert got == await rig.alone("chat", body)
            assert got.headers[MODE] == "passthrough"
        got = await rig.ask("native", NATIVE)
        assert got.headers[MODE] == "fanout"


async def test_a_target_that_shows_special_tokens_is_left_alone() -> None:
    async with fanning(shows_special=True) as rig:
        got = await rig.ask("native", NATIVE)
        assert got == await rig.alone("native", NATIVE)
        assert got.headers[MODE] == "passthrough"
        assert "--special" in rig.server.route.reason


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize(
    ("more", "mode"), [({}, "fanout"), ({"n_predict": 30}, "fanout"), ({"n_predict": -1}, None)]
)
async def test_the_targets_own_limit_holds(kind: str, more: dict[str, Any], mode: str) -> None:
    async with fanning(language=Language(mean_length=0), own_limit=9) as rig:
        limits = ("n_predict", "max_tokens")
        body = {name: value for name, value in BODIES[kind].items() if name not in limits}
        for streamed in (False, True):
            asked = {**body, **more, "stream": streamed}
            got = await rig.ask(kind, asked)
            assert got == await rig.alone(kind, asked)
            assert got.headers[MODE] == (mode or "passthrough")


@pytest.mark.parametrize("behaviour", [drafter.perfect, drafter.empty])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("shifts_context", "limit"),
    [(False, -1), (False, 400), (True, 400)],
)
async def test_a_full_context_is_the_targets_own_business(
    behaviour: drafter.Behaviour, streamed: bool, shifts_context: bool, limit: int
) -> None:
    flags = {"n_ctx": 160, "shifts_context": shifts_context}
    async with fanning(behaviour, Language(mean_length=0), **flags) as rig:
        body = {**NATIVE, "n_predict": limit, "stream": streamed}
        got = await rig.ask("native", body)
        assert _joined(got) == _joined(await rig.alone("native", body))
        assert got.headers[MODE] == "fanout"


def _joined(answer: Answer) -> Any:
    """Text and last result: what comes in one piece is not streamed alike."""
    last = answer.content[-1] if isinstance(answer.content, list) else answer.content
    return answer.text, last


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("native", {"grammar": 'root ::= "a"'}),
        ("native", {"n_probs": 2}),
        ("native", {"seed": 4, "temperature": 0.8}),
        ("native", {"mirostat": 2}),
        ("native", {"n": 2}),
        ("native", {"temperature": "warm"}),
        ("native", {"n_predict": "many"}),
        ("native", {"prompt": ["a", "b"]}),
        ("native", {"prompt": "word " * 3000}),
        ("native", {"t_max_predict_ms": 5}),
        ("chat", {"logprobs": True}),
        ("chat", {"response_format": {"type": "json_object"}}),
        ("chat", {"tools": [{"type": "function", "function": {"name": "f"}}]}),
        ("chat", {"messages": [{"role": "assistant", "content": "I"}]}),
        ("chat", {"messages": 5}),
        ("chat", {"messages": [{"role": "user", "content": [IMAGE]}]}),
    ],
)
async def test_what_rounds_cannot_carry_is_left_to_the_target(
    kind: str, more: dict[str, Any]
) -> None:
    async with fanning() as rig:
        body = {**BODIES[kind], "max_tokens": 5, **more}
        got = await rig.ask(kind, body)
        assert got.headers[MODE] == "passthrough"
        if "n_probs" not in more and "n" not in more:
            assert got == await rig.alone(kind, body)


async def test_the_draft_may_die_meanwhile() -> None:
    language = Language(mean_length=0)
    dying = drafter.ScriptedDrafter(language, fail_after_calls=3)
    async with proxied(
        language,
        drafter=dying,
        num_slots=10,
        has_ngram_pool=False,
        settings={"fanout": {"warm": "never"}},
    ) as rig:
        for streamed in (False, True):
            got = await rig.ask("native", {**NATIVE, "stream": streamed})
            assert got == await rig.alone("native", {**NATIVE, "stream": streamed})


async def test_a_client_that_leaves_frees_all() -> None:
    async with fanning(language=Language(mean_length=0), pass_ms=20) as rig:
        asking = spawn(rig.ask("native", {**NATIVE, "stream": True}), name="ask")
        await rig.target.wait_for("/completion", 4)
        asking.cancel()
        await until(rig.at_rest)
        assert rig.server.route.num_running == 0


async def test_several_at_once_share_the_slots() -> None:
    async with fanning(drafter.noisy(0.1, random.Random(4)), pass_ms=2) as rig:
        bodies = [{**NATIVE, "prompt": f"Number {n}", "stream": n % 2 > 0} for n in range(6)]
        got = await asyncio.gather(*(rig.ask("native", body) for body in bodies))
        assert got == [await rig.alone("native", body) for body in bodies]
        assert {answer.headers[MODE] for answer in got} >= {"fanout"}


async def test_a_broken_target_breaks_the_stream() -> None:
    async with fanning(language=Language(mean_length=0), pass_ms=20) as rig:
        asking = spawn(rig.ask("native", {**NATIVE, "stream": True}), name="ask")
        await rig.target.wait_for("/completion", 4)
        await rig.target.down()
        answer = await asking
        assert not answer.whole
        assert "error" in answer.events[-1]


@pytest.mark.load
async def test_sampling_is_the_targets_own() -> None:
    """Second tokens at temperature 0.8, by fan-out and alone: one distribution."""
    language = Language(mean_length=0)
    body = {"prompt": "Once", "temperature": 0.8, "n_predict": 4, "return_tokens": True}
    async with fanning(language=language, probed=True, random_seed=7) as rig:
        counts: list[Counter[tuple[int, ...]]] = [Counter(), Counter()]
        for number, ask in enumerate((rig.ask, rig.alone)):
            for _ in range(300):
                answer = await ask("native", body)
                counts[number][tuple(answer.json["tokens"][:3])] += 1
    kinds = [kind for kind, count in (counts[0] + counts[1]).items() if count >= 10]
    assert len(kinds) > 3
    chi_squared = sum(
        (counts[0][kind] - counts[1][kind]) ** 2 / (counts[0][kind] + counts[1][kind])
        for kind in kinds
    )
    freedom = len(kinds)
    assert chi_squared < freedom + 4 * (2 * freedom) ** 0.5  # about one in 10 000
