"""A recorded draft says what the real one says, at its own pace; holes are filled and counted."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from specproxy.bench.recorded import RecordedDrafter, Recording
from specproxy.core.drafted import DraftToken
from specproxy.core.tasks import spawn, stop
from specproxy.errors import DraftUnavailable
from specproxy.testing import Language, ScriptedDrafter
from specproxy.testing.drafter import Behaviour, perfect

LANGUAGE = Language(mean_length=0)
PROMPT = LANGUAGE.vocabulary.tokenize("Hello sea, hello sun")
SOON_S = 5.0


def recorded(
    num_known: int, *, token_s: float = 0.0, behaviour: Behaviour = perfect
) -> tuple[RecordedDrafter, ScriptedDrafter]:
    """A drafter that knows so many tokens after PROMPT, and the real one behind it."""
    real, recording = ScriptedDrafter(LANGUAGE, behaviour), Recording()
    recording.learn(PROMPT, behaviour(LANGUAGE, PROMPT, num_known))
    return RecordedDrafter(real, recording, token_s), real


async def test_what_is_recorded_takes_no_real_draft() -> None:
    drafter, real = recorded(12)
    told: list[DraftToken] = []
    with closing(drafter.open()) as sequence:
        assert await sequence.draft(PROMPT, 8, on_token=told.append) == told
        assert told == perfect(LANGUAGE, PROMPT, 8)
        context = [*PROMPT, *(one.token for one in told)]
        assert await sequence.draft(context, 4) == perfect(LANGUAGE, context, 4)
        assert await sequence.draft(PROMPT, 0) == []
    assert real.calls == []
    assert (drafter.num_recorded, drafter.num_holes) == (12, 0)


async def test_a_hole_is_filled_once() -> None:
    drafter, real = recorded(3)
    told: list[DraftToken] = []
    with closing(drafter.open()) as sequence:
        assert await sequence.draft(PROMPT, 8, on_token=told.append) == told
        assert told == perfect(LANGUAGE, PROMPT, 8)
        assert (drafter.num_recorded, drafter.num_holes) == (3, 5)
        assert [num_tokens for _, num_tokens in real.calls] == [5]
        await sequence.draft(PROMPT, 8)
        assert (drafter.num_recorded, drafter.num_holes) == (11, 5)
        assert len(real.calls) == 1


async def test_other_contexts_are_holes() -> None:
    drafter, _ = recorded(8)
    with closing(drafter.open()) as sequence:
        for other in (PROMPT[1:], [*PROMPT, 5], [5, *PROMPT]):
            assert await sequence.draft(other, 2) == perfect(LANGUAGE, other, 2)
    assert (drafter.num_recorded, drafter.num_holes) == (0, 6)


async def test_each_token_takes_its_time() -> None:
    drafter, _ = recorded(8, token_s=0.02)
    clock = asyncio.get_running_loop().time
    came_s: list[float] = []
    with closing(drafter.open()) as sequence:
        began_s = clock()
        await sequence.draft(PROMPT, 6, on_token=lambda _: came_s.append(clock() - began_s))
    least_s = [0.02 * number for number in range(1, 7)]
    assert all(came >= least - 0.002 for came, least in zip(came_s, least_s, strict=True))


async def test_a_cut_ends_a_draft_early() -> None:
    drafter, real = recorded(2, token_s=60.0)
    with closing(drafter.open()) as sequence:
        sequence.cut()  # nothing runs yet
        drafting = spawn(sequence.draft(PROMPT, 8), name="draft")
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError):
            await sequence.draft(PROMPT, 1)
        sequence.cut()
        assert await asyncio.wait_for(drafting, SOON_S) == []
    assert real.calls == []
    assert drafter.num_recorded == 0


async def test_a_caller_that_has_enough_cuts_after_a_token() -> None:
    drafter, real = recorded(2)
    with closing(drafter.open()) as sequence:
        assert len(await sequence.draft(PROMPT, 8, on_token=lambda _: sequence.cut())) == 1
    assert real.calls == []


async def test_a_cut_reaches_the_real_draft() -> None:
    drafter, real = recorded(0)
    real.delay_s = 60.0
    with closing(drafter.open()) as sequence:
        drafting = spawn(sequence.draft(PROMPT, 8), name="draft")
        await asyncio.sleep(0)
        assert real.calls
        sequence.cut()
        assert await asyncio.wait_for(drafting, SOON_S) == []


async def test_a_cancelled_draft_can_be_asked_again() -> None:
    drafter, _ = recorded(2, token_s=60.0)
    with closing(drafter.open()) as sequence:
        drafting = spawn(sequence.draft(PROMPT, 2), name="draft")
        await asyncio.sleep(0)
        await stop(drafting)
        drafter.token_s = 0.0
        assert await sequence.draft(PROMPT, 2) == perfect(LANGUAGE, PROMPT, 2)


async def test_it_ends_where_the_draft_ended_its_turn() -> None:
    end = next(i for i in range(len(LANGUAGE.vocabulary)) if LANGUAGE.vocabulary.is_end(i))

    def ends(language: Language, tokens: Any, num_tokens: int) -> list[DraftToken]:
        return [DraftToken(end)]

    drafter, real = recorded(1, behaviour=ends)
    with closing(drafter.open()) as sequence:
        assert await sequence.draft(PROMPT, 8) == [DraftToken(end)]
    assert real.calls == []


async def test_the_real_draft_is_told_the_limit_and_given_back() -> None:
    drafter, real = recorded(2)
    sequence = drafter.open(100)
    assert (real.limits, real.num_open) == ([100], 1)
    sequence.close()
    sequence.close()
    assert real.num_open == 0
    await drafter.aclose()
    assert drafter.alive  # whoever made the real one closes it
    real.kill()
    assert not drafter.alive
    with pytest.raises(DraftUnavailable):
        drafter.open()
