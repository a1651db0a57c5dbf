"""Cut, cancel, close, overflow, eviction and death of the real drafter."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from specproxy.core.drafted import DraftToken
from specproxy.draft.engine import LlamaDrafter
from specproxy.draft.reach import Reach, without
from specproxy.errors import ConfigError, DraftUnavailable, SpecproxyError
from specproxy.llama.vocabulary import ModelVocabulary

pytestmark = pytest.mark.real
Prompts = tuple[str, ...]
Greedy = Callable[[Sequence[int], int], list[DraftToken]]
Same = Callable[..., None]


@pytest.fixture
async def drafter(draft_model_path: Path) -> AsyncIterator[LlamaDrafter]:
    opened = LlamaDrafter(draft_model_path, num_sequences=2, context_tokens=256)
    yield opened
    await opened.aclose()
    await opened.aclose()
    assert "specproxy-draft" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture(scope="module")
def tokens(vocabulary: ModelVocabulary, prompts: Prompts) -> list[int]:
    return vocabulary.tokenize(prompts[0])


async def until_stepped(drafter: LlamaDrafter) -> None:
    while drafter.num_steps == 0:  # noqa: ASYNC110 - only a counter tells of reading
        await asyncio.sleep(0.002)


async def test_cut_returns_what_there_is(
    drafter: LlamaDrafter, tokens: list[int], call: Any
) -> None:
    running = call(drafter.open(), tokens, 150)
    await running.heard(2)
    running.sequence.cut()
    drafted = await running.task
    assert 2 <= len(drafted) < 150
    assert drafted == running.told
    running.sequence.cut()  # no call: no effect on the next one
    assert len(await running.sequence.draft(tokens, 3)) == 3


async def test_cut_in_the_middle_of_a_prompt(
    drafter: LlamaDrafter, tokens: list[int], call: Any
) -> None:
    running = call(drafter.open(), tokens * 12, 4)
    await until_stepped(drafter)
    running.sequence.cut()
    assert await running.task == []
    assert drafter.num_decoded_tokens < len(tokens) * 12


async def test_cancellation_abandons_the_work_and_leaves_the_sequence_usable(
    drafter: LlamaDrafter, tokens: list[int], plain_greedy: Greedy, assert_same: Same, call: Any
) -> None:
    running = call(drafter.open(), tokens, 150)
    await running.heard(1)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    seen = len(running.told)
    assert_same(plain_greedy(tokens, 4), await running.sequence.draft(tokens, 4))
    assert len(running.told) == seen  # nothing is told after the cancellation
    assert drafter.num_decoded_tokens < len(tokens) + 60


async def test_cancelled_before_the_first_step(
    drafter: LlamaDrafter, tokens: list[int], call: Any
) -> None:
    running = call(drafter.open(), tokens, 5)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert len(await running.sequence.draft(tokens, 2)) == 2


async def test_closing_ends_the_running_call(
    drafter: LlamaDrafter, tokens: list[int], call: Any
) -> None:
    running = call(drafter.open(), tokens, 150)
    await running.heard(1)
    running.sequence.close()
    assert 1 <= len(await running.task) < 150
    with pytest.raises(RuntimeError, match="closed"):
        await running.sequence.draft(tokens, 1)


async def test_misuse_is_refused(drafter: LlamaDrafter, tokens: list[int], call: Any) -> None:
    running = call(drafter.open(), tokens, 3)
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="drafting"):
        await running.sequence.draft(tokens, 1)
    assert len(await running.task) == 3
    with pytest.raises(ValueError, match="at least one"):
        await running.sequence.draft([], 1)


async def test_more_sequences_than_rooms(
    drafter: LlamaDrafter,
    vocabulary: ModelVocabulary,
    plain_greedy: Greedy,
    prompts: Prompts,
    assert_same: Same,
) -> None:
    """Four sequences take turns and run at once in two rooms: slower, never wrong."""
    contexts = [vocabulary.tokenize(prompt) for prompt in prompts]
    expected = [plain_greedy(context, 4) for context in contexts]
    sequences = [drafter.open() for _ in contexts]
    for sequence, context, wanted in zip(sequences, contexts, expected, strict=True):
        assert_same(wanted, await sequence.draft(context, 4))
    before = drafter.num_decoded_tokens
    assert_same(expected[3], await sequences[3].draft(contexts[3], 4))
    assert drafter.num_decoded_tokens - before == 4  # still there
    before = drafter.num_decoded_tokens
    assert_same(expected[0], await sequences[0].draft(contexts[0], 4))
    assert drafter.num_decoded_tokens - before == len(contexts[0]) + 3  # evicted
    together = await asyncio.gather(
        *(s.draft(c, 4) for s, c in zip(sequences, contexts, strict=True))
    )
    for wanted, found in zip(expected, together, strict=True):
        assert_same(wanted, found)


async def test_idle_rooms_are_emptied_when_cells_run_out(
    drafter: LlamaDrafter, tokens: list[int], plain_greedy: Greedy, assert_same: Same
) -> None:
    idle, busy = drafter.open(), drafter.open()
    await idle.draft(tokens * 8, 1)
    long = [*tokens[1:], *tokens * 15]
    assert len(tokens) * 8 + len(long) > 256 > len(long) + 4
    assert len(await busy.draft(long, 4)) == 4
    assert_same(plain_greedy(tokens, 2), await idle.draft(tokens, 2))


async def test_two_that_do_not_fit_together_end_early_but_never_fail(
    drafter: LlamaDrafter, tokens: list[int]
) -> None:
    longer, shorter = tokens * 13, [*tokens[2:], *tokens * 8]
    found = await asyncio.gather(
        drafter.open().draft(longer, 200), drafter.open().draft(shorter, 20)
    )
    assert len(found[0]) < 200
    assert len(found[1]) == 20
    assert drafter.alive


async def test_of_too_long_a_context_the_end_is_read(
    drafter: LlamaDrafter, tokens: list[int], plain_greedy: Greedy, assert_same: Same
) -> None:
    sequence = drafter.open()
    context = [*[7] * 400, *tokens * 6]
    left = without(context, Reach(256).num_left_out(len(context)))
    assert 64 < len(left) < 256
    found = await sequence.draft(context, 4)
    assert_same(plain_greedy(left, 4), found)
    before = drafter.num_decoded_tokens
    assert len(await sequence.draft([*context, found[0].token], 3)) == 3
    assert drafter.num_decoded_tokens - before < 12  # (it is not read again)
    assert len(await sequence.draft([7] * 240, 60)) == 17  # the last cell's logits still count


async def test_two_long_contexts_are_both_drafted_for(
    draft_model_path: Path, tokens: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """They do not fit whole: each is read from later on, and no longer costs the other its own."""
    large = LlamaDrafter(draft_model_path, num_sequences=4, context_tokens=1024)
    try:
        one, two = large.open(), large.open()
        contexts = [[*tokens * 60][:650], [*tokens[1:], *tokens * 60][:650]]
        for _ in range(2):
            for sequence, context in zip((one, two), contexts, strict=True):
                assert len(await sequence.draft(context, 2)) == 2
        before = large.num_decoded_tokens
        for sequence, context in zip((one, two), contexts, strict=True):
            assert len(await sequence.draft([*context, 7], 2)) == 2
        assert large.num_decoded_tokens - before < 12
        assert [record.message for record in caplog.records] == [
            "draft.context_tokens: too few for all answers; only ends are read"
        ]
    finally:
        await large.aclose()


async def test_no_answer_costs_another_its_context(
    drafter: LlamaDrafter, tokens: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    contexts = [[*tokens * 7, start] for start in (5, 6, 7)]
    lines = [drafter.open() for _ in range(3)]
    contexts[1].reverse()
    contexts[2] = contexts[2][3:]
    for _ in range(2):
        for line, context in zip(lines[:2], contexts, strict=False):
            assert len(await line.draft(context, 2)) == 2
        assert await lines[2].draft(contexts[2], 2) == []
    assert drafter.num_decoded_tokens < len(contexts[0]) + len(contexts[1]) + 12
    assert len(caplog.records) == 1
    lines[0].close()
    assert len(await lines[2].draft(contexts[2], 2)) == 2


async def test_ids_that_the_draft_lacks_are_not_read_and_that_is_said_once(
    drafter: LlamaDrafter, tokens: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    sequence = drafter.open()
    with caplog.at_level(logging.WARNING):
        assert await sequence.draft([7, 49152], 4) == []
        assert await sequence.draft([7, -1], 4) == []
    assert len(caplog.records) == 1
    assert len(await sequence.draft(tokens, 2)) == 2


async def test_a_dead_worker_fails_everyone_once(
    drafter: LlamaDrafter, tokens: list[int], caplog: pytest.LogCaptureFixture, call: Any
) -> None:
    running = call(drafter.open(), tokens, 150)
    others = [call(drafter.open(), tokens, 150) for _ in range(3)]  # two of them wait for a room
    await running.heard(1)
    drafter.kill()
    for failed in (running, *others):
        with pytest.raises(DraftUnavailable):
            await failed.task
    assert not drafter.alive
    with pytest.raises(DraftUnavailable):
        drafter.open()
    with pytest.raises(DraftUnavailable):
        await running.sequence.draft(tokens, 1)
    drafter.kill()
    running.sequence.cut()
    running.sequence.close()
    assert [r.name for r in caplog.records if r.levelno >= logging.WARNING] == [
        "specproxy.draft.worker"
    ]
    assert drafter.vocabulary.tokenize("still needed by the followers")


async def test_killing_an_idle_drafter(drafter: LlamaDrafter, tokens: list[int]) -> None:
    sequence = drafter.open()
    drafter.kill()
    with pytest.raises(DraftUnavailable):
        await sequence.draft(tokens, 1)
    assert not drafter.alive


async def test_closing_the_drafter_fails_running_calls(
    drafter: LlamaDrafter, tokens: list[int], call: Any
) -> None:
    running = call(drafter.open(), tokens, 150)
    await running.heard(1)
    await drafter.aclose()
    with pytest.raises(DraftUnavailable, match="closed"):
        await running.task
    assert not drafter.alive


def test_a_missing_model_or_an_impossible_context_raises_at_once(
    tmp_path: Path, draft_model_path: Path
) -> None:
    with pytest.raises(ConfigError):
        LlamaDrafter(tmp_path / "nothing.gguf")
    with pytest.raises(SpecproxyError, match="No context"):
        LlamaDrafter(draft_model_path, num_sequences=1000)
    assert "specproxy-draft" not in {thread.name for thread in threading.enumerate()}
