"""Before a coordinator: its own answer, whatever the draft says, and much fewer passes."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from specproxy.route import Mode
from specproxy.testing import Language, ScriptedDrafter, drafter, until
from specproxy.testing.coordinated import CoordinatedRig, coordinated
from specproxy.testing.drafter import Behaviour

KINDS = ("chat", "completions", "native")
DRAFTS: dict[str, Callable[[], Behaviour]] = {
    "good": lambda: drafter.perfect,
    "noisy": lambda: drafter.noisy(0.3, random.Random(1)),
    "adversarial": lambda: drafter.adversarial,
    "babbling": lambda: drafter.babbling(random.Random(2)),
    "empty": lambda: drafter.empty,
    "repeating": lambda: drafter.repeats_last,
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


async def check_equal(rig: CoordinatedRig, kind: str, body: dict[str, Any]) -> None:
    got = await rig.ask(kind, body)
    assert got == await rig.alone(kind, body)
    assert got.headers["x-specproxy-mode"] == "coordinator"


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", DRAFTS)
async def test_every_draft_gives_the_same_answer(name: str, sampling: str) -> None:
    async with coordinated(Language(mean_length=0), DRAFTS[name](), pass_ms=0.7) as rig:
        for kind in KINDS:
            for stream in (True, False):
                more = {"stream_options": {"include_usage": True}} if stream else {}
                await check_equal(
                    rig, kind, asking(kind, stream=stream, **SAMPLINGS[sampling], **more)
                )
        await until(rig.at_rest)


async def test_a_good_draft_saves_passes_and_is_counted() -> None:
    made = ScriptedDrafter(Language(mean_length=0), drafter.perfect, delay_s=0.001)
    async with coordinated(made.language, drafter=made, pass_ms=20) as rig:
        before = rig.coordinator.engine.num_passes
        await check_equal(rig, "chat", asking("chat", temperature=0))
        await until(rig.at_rest)
        counts = rig.server.route.counts
        assert rig.coordinator.engine.num_passes - before < 20
        assert counts.num_generated == 40
        assert counts.num_answers == 1
        assert counts.num_accepted > 20
        assert counts.num_accepted <= counts.num_proposed
        assert counts.num_confirmed >= counts.num_accepted


async def test_logprobs_several_choices_and_grammars_are_the_targets_own() -> None:
    async with coordinated(Language(mean_length=0), pass_ms=0.5) as rig:
        for more in ({"logprobs": True, "top_logprobs": 3}, {"n": 2, "temperature": 0}):
            await check_equal(rig, "chat", asking("chat", **{"temperature": 0, **more}))


async def test_many_clients_at_once_get_what_each_gets_alone() -> None:
    made = ScriptedDrafter(Language(mean_length=0), drafter.noisy(0.2, random.Random(3)))
    async with coordinated(made.language, drafter=made, pass_ms=2, num_places=3) as rig:
        bodies = [asking("chat", f"Song number {number}", temperature=0) for number in range(9)]
        got = await asyncio.gather(*(rig.ask("chat", body) for body in bodies))
        assert got == [await rig.alone("chat", body) for body in bodies]
        await until(rig.at_rest)


async def test_a_client_that_leaves_frees_its_place() -> None:
    made = ScriptedDrafter(Language(mean_length=0), delay_s=0.002)
    rng = random.Random(4)
    async with coordinated(made.language, drafter=made, pass_ms=3) as rig:
        for _ in range(30):
            body = asking("chat", stream=rng.random() < 0.7, max_tokens=400)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(rng.random() * 0.05):
                    await rig.ask("chat", body)
        await until(rig.at_rest)
        await check_equal(rig, "chat", asking("chat", temperature=0))


async def test_a_dead_draft_leaves_the_answer_to_the_target() -> None:
    made = ScriptedDrafter(Language(mean_length=0), fail_after_calls=3)
    async with coordinated(made.language, drafter=made, pass_ms=2) as rig:
        for _ in range(2):
            body = asking("chat", temperature=0)
            assert await rig.ask("chat", body) == await rig.alone("chat", body)


async def test_a_draft_that_hangs_costs_little_more_than_none() -> None:
    """The coordinator waits for drafts about as long as a pass takes, not for ever."""
    made = ScriptedDrafter(Language(mean_length=0), delay_s=3600)
    async with coordinated(made.language, drafter=made, pass_ms=2) as rig:
        async with asyncio.timeout(20):
            await check_equal(rig, "chat", asking("chat", temperature=0))


async def test_the_engine_dies_in_an_answer_and_comes_back() -> None:
    async with coordinated(Language(mean_length=0), pass_ms=5) as rig:
        body = asking("chat", stream=True, max_tokens=400)
        async with rig.client.post(f"{rig.server.url}/v1/chat/completions", json=body) as answer:
            await answer.content.readany()
            await rig.coordinator.down()
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()
        refused = await rig.ask("chat", asking("chat"))
        assert refused.status == 503
        assert "Retry-After" in refused.headers
        await until(lambda: rig.server.route.mode is Mode.STARTING)
        await rig.coordinator.up()
        await until(rig.server.route.ready.is_set)
        await check_equal(rig, "chat", asking("chat", temperature=0))
        await until(rig.at_rest)


async def test_while_the_channel_is_down_answers_pass_through() -> None:
    async with coordinated(Language(mean_length=0), pass_ms=0.5) as rig:
        rig.coordinator.channels.drop_all()
        await until(lambda: rig.server.route.mode is not Mode.COORDINATOR)
        got = await rig.ask("chat", asking("chat", temperature=0))
        assert got == await rig.alone("chat", asking("chat", temperature=0))
        assert got.headers["x-specproxy-mode"] in ("passthrough", "coordinator")
        await until(rig.server.route.ready.is_set)
        await check_equal(rig, "chat", asking("chat", temperature=0))


@pytest.mark.load
async def test_sampled_answers_have_the_targets_distribution() -> None:
    """Without a seed, with a noisy draft: first words through the proxy and alone."""
    from scipy.stats import chi2_contingency  # (a second, of whoever collects this file)

    language = Language(mean_length=0)
    noisy = drafter.noisy(0.5, random.Random(5))
    body = {"prompt": "x", "n_predict": 3, "temperature": 1.0, "top_k": 6, "min_p": 0.0}
    async with coordinated(language, noisy, pass_ms=0.2) as rig:
        through, alone = Counter[str](), Counter[str]()
        for _ in range(150):
            through[(await rig.ask("native", body)).text] += 1
            alone[(await rig.alone("native", body)).text] += 1
    words = [word for word in {*through, *alone} if through[word] + alone[word] >= 12]
    table = [[counts[word] for word in words] for counts in (through, alone)]
    table = [[*row, 150 - sum(row)] for row in table]
    assert len(words) >= 3
    assert (
        chi2_contingency([column for column in zip(*table, strict=True) if sum(column)]).pvalue
        > 1e-4
    )
