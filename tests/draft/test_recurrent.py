"""A draft whose cache can forget or share no part of a sequence: slower, never of another mind."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from specproxy.core.drafted import DraftToken
from specproxy.draft.engine import LlamaDrafter
from specproxy.llama.model import Model

pytestmark = pytest.mark.real
Same = Callable[..., None]


async def drafted_alone(path: Path, tokens: list[int]) -> list[DraftToken]:
    drafter = LlamaDrafter(path, num_sequences=1, context_tokens=256)
    try:
        return await drafter.open().draft(tokens, 6)
    finally:
        await drafter.aclose()


def test_a_model_says_that_it_is_recurrent(recurrent_model: Path) -> None:
    model = Model(recurrent_model)
    assert model.is_recurrent
    model.close()


async def test_nothing_of_another_conversation_is_in_its_drafts(
    recurrent_model: Path, assert_same: Same, caplog: pytest.LogCaptureFixture
) -> None:
    header = [1, 2, 3, 4, 5]
    contexts = [[*header, *range(10, 50)], [*header, 8, 9], [*header, 30, 20, 31]]
    with caplog.at_level(logging.WARNING):
        drafter = LlamaDrafter(recurrent_model, num_sequences=4, context_tokens=256)
    assert "recurrent" in caplog.text
    assert not drafter.can_branch
    try:
        for context in [*contexts, [*contexts[1], 40], contexts[0]]:
            sequence = drafter.open()
            found = await sequence.draft(context, 6)
            assert_same(await drafted_alone(recurrent_model, context), found, str(context))
            missed = [*context, (found[0].token + 1) % 60]
            found = await sequence.draft(missed, 6)
            assert_same(await drafted_alone(recurrent_model, missed), found, "after a miss")
            sequence.close()
        assert drafter.alive
    finally:
        await drafter.aclose()
