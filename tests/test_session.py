"""One session: it drafts ahead of the target, follows it, and ends quietly."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any

import pytest

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.drafted import DraftToken
from specproxy.core.observed import Observed
from specproxy.core.tasks import spawn, stop
from specproxy.core.tree import SeedState
from specproxy.core.window import Window
from specproxy.core.worth import SHADOW_EVERY, Worth
from specproxy.errors import TargetUnreachable
from specproxy.session import Session
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.deltas import Delta
from specproxy.target.seeding import Seeder
from specproxy.testing import (
    Language,
    ScriptedDrafter,
    ScriptedTarget,
    ToyVocabulary,
    drafter,
    generate,
    until,
)

LANGUAGE = Language(mean_length=0)
PROMPT = list(range(280, 292))
RIGHT = generate(LANGUAGE, PROMPT, max_tokens=60)
WINDOW = Window()


@asynccontextmanager
async def running(
    made: ScriptedDrafter,
    prompt: Any = PROMPT,
    window: Window = WINDOW,
    worth: Worth | None = None,
) -> AsyncIterator[tuple[Session, ScriptedTarget]]:
    """A session whose answer the test tells; its seeds go to a real pool."""

    async def known() -> Sequence[int]:
        if isinstance(prompt, Exception):
            raise prompt
        return list(prompt)

    async with (
        ScriptedTarget(LANGUAGE, num_slots=2) as target,
        TargetClient(TargetSettings(url=target.url)) as client,
    ):
        seeder = Seeder(client, n_match=4, seed_slot=1, max_tokens=32, num_context=4096)
        observed = Observed().begin("native", 0.0)
        session = Session(made, seeder, window, AcceptanceModel(), worth or Worth(4), observed)
        tasks = [
            spawn(seeder.run(), name="seeder"),
            spawn(session.speculate(known), name="speculate"),
        ]
        try:
            yield session, target
        finally:
            for task in reversed(tasks):
                await stop(task)
    assert made.num_open == 0


def pooled(session: Session) -> int:
    """How many of the next tokens have reached the pool."""
    line = session._tree.main_line() if session._tree is not None else []
    return len(list(takewhile(lambda node: node.state is SeedState.POOLED, line)))


def said(tokens: Sequence[int]) -> Delta:
    vocabulary = LANGUAGE.vocabulary
    text = b"".join(map(vocabulary.piece, tokens)).decode("utf-8", "ignore")
    return Delta(text=text, tokens=list(tokens))


async def test_it_drafts_ahead_and_seeds_before_the_first_token() -> None:
    async with running(ScriptedDrafter(LANGUAGE)) as (session, target):
        assert target.pool is not None
        await until(lambda: session.counts.num_seeded >= WINDOW.near_tokens)
        await until(lambda: target.pool and target.pool.draft(0, PROMPT[:-1], PROMPT[-1]))
        proposed = target.pool.draft(0, PROMPT[:-1], PROMPT[-1])
        assert proposed[:4] == RIGHT[:4]
        assert session.counts.num_drafted <= WINDOW.lookahead_tokens * 4


async def test_it_follows_and_counts() -> None:
    async with running(ScriptedDrafter(LANGUAGE)) as (session, _):
        for start in range(0, 40, 4):
            await until(lambda: pooled(session) >= 4)
            session.hear(said(RIGHT[start : start + 4]))
        counts = session.counts
        assert counts.num_confirmed == 40
        assert counts.num_missed == counts.num_undrafted == 0
        assert counts.num_pooled == 40


async def test_an_answer_is_followed_on_while_its_drafting_is_being_ended() -> None:
    async with running(ScriptedDrafter(LANGUAGE)) as (session, _):
        await until(lambda: session._tree and session._tree.num_ahead)
        for _ in range(60):
            session._worth.decided(hit=False)
        assert not session._worth.seeds
        for token in RIGHT[:20]:
            session.hear(said([token]))
            await asyncio.sleep(0)
        counts = session.counts
        assert counts.num_confirmed + counts.num_missed + counts.num_undrafted == 20


async def test_an_answer_on_trial_is_seeded_once_its_drafts_were_right() -> None:
    worth = Worth(4)
    while worth.seeds:
        worth.decided(hit=False)
    for _ in range(SHADOW_EVERY - 1):
        worth.begin()
    async with running(ScriptedDrafter(LANGUAGE), worth=worth) as (session, _):
        for token in RIGHT[:12]:
            await until(lambda: worth.seeds or (session._tree and session._tree.num_ahead))
            assert not session.counts.num_seeded or worth.seeds
            session.hear(said([token]))
            await asyncio.sleep(0)
        await until(lambda: session.counts.num_seeded)


async def test_a_miss_voids_the_draft_and_it_goes_on_from_there() -> None:
    made = ScriptedDrafter(LANGUAGE, drafter.adversarial)
    async with running(made) as (session, _):
        for token in RIGHT[:5]:
            await until(lambda: session._tree and session._tree.num_ahead)
            session.hear(said([token]))
        assert session.counts.num_missed == 5
        await until(lambda: made.calls[-1][0][: len(PROMPT) + 5] == PROMPT + RIGHT[:5])


async def test_what_comes_before_the_prompt_is_known_is_not_lost() -> None:
    made = ScriptedDrafter(LANGUAGE)
    ready = asyncio.Event()

    async def late() -> Sequence[int]:
        await ready.wait()
        return PROMPT

    async with TargetClient(TargetSettings(url="http://127.0.0.1:9")) as client:
        seeder = Seeder(client, n_match=4, seed_slot=1, max_tokens=32, num_context=4096)
        observed = Observed().begin("native", 0.0)
        session = Session(made, seeder, WINDOW, AcceptanceModel(), Worth(4), observed)
        task = spawn(session.speculate(late), name="speculate")
        session.hear(said(RIGHT[:3]))
        ready.set()
        await until(lambda: made.calls)
        assert made.calls[0][0] == PROMPT + RIGHT[:3]
        await stop(task)
    assert session.counts.num_undrafted == 3


async def test_the_end_of_the_turn_is_not_drafted_beyond() -> None:
    language = LANGUAGE.with_script("Hi", "Hello")
    prompt = list(language.scripts[0][0])
    made = ScriptedDrafter(language)
    async with running(made, prompt) as (session, _):
        await until(lambda: session._tree and session._tree.num_ahead == 2)
        await asyncio.sleep(0.02)
        assert session._tree is not None
        assert language.vocabulary.is_end(session._tree.tip.token)
        assert session.counts.num_drafted == 2


def torn(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """Right, but it could have said something else each time."""
    said = drafter.perfect(language, tokens, num_tokens)
    return [DraftToken(one.token, 0.5, ((one.token ^ 1, 0.45),)) for one in said]


@pytest.mark.parametrize("can_branch", [True, False])
async def test_a_draft_that_would_read_all_anew_is_asked_for_no_branch(*, can_branch: bool) -> None:
    made = ScriptedDrafter(LANGUAGE, torn, can_branch=can_branch)
    async with running(made) as (session, _):
        await until(
            lambda: session._tree and any(n.children[1:] for n in session._tree.main_line())
        )
        await asyncio.sleep(0.05)
        line = [*PROMPT, *RIGHT]
        beside = [tokens for tokens, _ in made.calls if tokens != line[: len(tokens)]]
        assert bool(beside) is can_branch


@pytest.mark.parametrize("behaviour", [drafter.empty, drafter.miscounting(5)])
async def test_an_odd_draft_does_not_keep_the_loop_busy(behaviour: drafter.Behaviour) -> None:
    made = ScriptedDrafter(LANGUAGE, behaviour)
    async with running(made) as (session, _):
        await asyncio.sleep(0.05)
        num_calls = len(made.calls)
        await asyncio.sleep(0.05)
        assert len(made.calls) == num_calls
        session.hear(said(RIGHT[:1]))
        assert session.counts.num_missed == 0


@pytest.mark.parametrize(
    "made",
    [ScriptedDrafter(LANGUAGE, fail_after_calls=0), ScriptedDrafter(LANGUAGE, fail_after_calls=2)],
)
async def test_a_dead_draft_ends_speculation_only(made: ScriptedDrafter) -> None:
    async with running(made) as (session, _):
        await until(lambda: not made.alive and made.num_open == 0)
        for token in RIGHT[:10]:
            session.hear(said([token]))
        assert session.counts.num_confirmed + session.counts.num_missed <= 10


@pytest.mark.parametrize("error", [TargetUnreachable("gone"), RuntimeError("a bug")])
async def test_a_prompt_that_cannot_be_had_ends_speculation_only(error: Exception) -> None:
    made = ScriptedDrafter(LANGUAGE)
    async with running(made, error) as (session, _):
        await asyncio.sleep(0.01)
        session.hear(said(RIGHT[:5]))
        assert not made.calls


async def test_hearing_never_raises() -> None:
    class Failing(ToyVocabulary):
        broken = False

        def token_of(self, piece: bytes) -> int | None:
            if self.broken:
                raise OSError("the model's file is gone")
            return super().token_of(piece)

    vocabulary = Failing()
    made = ScriptedDrafter(Language(vocabulary, mean_length=0))
    vocabulary.broken = True
    async with running(made) as (session, _):
        await until(lambda: session._tree is not None)
        session.hear(Delta(text=" no such", tokens=None))
        session.hear(Delta(text=" word", tokens=None))
