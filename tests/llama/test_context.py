"""Decoding, rollback, sharing and the errors of a real context."""

from collections.abc import Iterator

import numpy as np
import pytest

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model
from specproxy.llama.vocabulary import ModelVocabulary

pytestmark = pytest.mark.real
# Batches of different shapes add in different orders; the logits span about 40.
TOLERANCE = 0.35


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    opened = Context(model, num_tokens=512, max_sequences=4, num_batch_tokens=64)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def prompt(vocabulary: ModelVocabulary) -> list[int]:
    return vocabulary.tokenize("The capital of France is Paris. The capital of Italy is")


def read(context: Context, tokens: list[int], position: int, sequence: int) -> np.ndarray:
    batch = Batch(64)
    row = batch.extend(tokens, position, sequence, wants_last_logits=True)
    assert context.decode(batch)
    return context.logits(row).copy()


def test_it_predicts_and_one_batch_equals_single_steps(
    context: Context, prompt: list[int], vocabulary: ModelVocabulary
) -> None:
    whole = read(context, prompt, 0, 0)
    assert whole.shape == (len(vocabulary),)
    assert whole.dtype == np.float32
    assert vocabulary.piece(int(whole.argmax())) == b" Rome"
    for position, token in enumerate(prompt):
        single = read(context, [token], position, 1)
    assert np.abs(whole - single).max() < TOLERANCE


def test_rollback_leaves_no_trace(context: Context, prompt: list[int]) -> None:
    before = read(context, prompt, 0, 0)
    read(context, [10, 20, 30], len(prompt), 0)
    assert context.seq_rm(0, len(prompt) - 1)
    after = read(context, prompt[-1:], len(prompt) - 1, 0)
    assert np.abs(before - after).max() < TOLERANCE


def test_positions_must_follow_on(context: Context, prompt: list[int]) -> None:
    read(context, prompt, 0, 0)
    batch = Batch(4)
    batch.add(5, len(prompt) + 3, (0,), wants_logits=True)
    with pytest.raises(SpecproxyError, match="code -1"):
        context.decode(batch)


def test_branches_share_their_trunk(context: Context, prompt: list[int]) -> None:
    """A tree in one batch: the trunk's cells carry both ids, each branch its own."""
    batch = Batch(64, max_sequences_per_row=2)
    for position, token in enumerate(prompt[:-1]):
        batch.add(token, position, (0, 1), wants_logits=False)
    fork = len(prompt) - 1
    left = batch.add(prompt[-1], fork, (0,), wants_logits=True)
    right = batch.add(prompt[3], fork, (1,), wants_logits=True)
    assert context.decode(batch)
    on_left, on_right = context.logits(left).copy(), context.logits(right).copy()
    assert np.abs(on_left - read(context, prompt, 0, 2)).max() < TOLERANCE
    assert np.abs(on_right - read(context, [*prompt[:-1], prompt[3]], 0, 3)).max() < TOLERANCE
    assert np.abs(on_left - on_right).max() > 1


def test_a_copied_sequence_goes_on_alone(context: Context, prompt: list[int]) -> None:
    read(context, prompt[:-1], 0, 0)
    context.seq_cp(0, 1)
    assert context.seq_rm(0)
    copied = read(context, prompt[-1:], len(prompt) - 1, 1)
    assert np.abs(copied - read(context, prompt, 0, 0)).max() < TOLERANCE


def test_no_room_is_an_answer_and_not_an_error(context: Context, prompt: list[int]) -> None:
    batch = Batch(64)
    filled = 0
    while filled <= context.num_tokens:
        batch.clear()
        batch.extend(([7] * 64), filled, 0, wants_last_logits=True)
        if not context.decode(batch):
            break
        filled += 64
    assert filled == context.num_tokens
    assert context.seq_rm(0)
    assert context.decode(batch)


def test_what_would_abort_the_process_is_refused(context: Context) -> None:
    with pytest.raises(SpecproxyError, match="does not fit"):
        context.decode(Batch(1))
    large = Batch(65)
    large.extend([7] * 65, 0, 0, wants_last_logits=True)
    with pytest.raises(SpecproxyError, match="does not fit"):
        context.decode(large)
    many = Batch(8)
    for position in range(5):
        many.add(7, position, (0,), wants_logits=True)
    with pytest.raises(SpecproxyError, match="does not fit"):
        context.decode(many)


def test_rows_without_logits_and_closed_contexts_say_so(context: Context) -> None:
    batch = Batch(8)
    batch.extend([7, 8], 0, 0, wants_last_logits=True)
    assert context.decode(batch)
    with pytest.raises(SpecproxyError, match="Row 0"):
        context.logits(0)
    context.close()
    for call in (
        lambda: context.decode(batch),
        lambda: context.logits(1),
        lambda: context.seq_rm(0),
    ):
        with pytest.raises(SpecproxyError, match="closed"):
            call()


def test_a_full_batch_takes_no_more_rows() -> None:
    batch = Batch(2)
    with pytest.raises(IndexError):
        batch.extend([1, 2, 3], 0, 0, wants_last_logits=True)
    batch.extend([1, 2], 0, 0, wants_last_logits=False)
    with pytest.raises(IndexError):
        batch.add(3, 2, (0,), wants_logits=True)
    assert len(batch) == 2


def test_a_smaller_cache_predicts_about_the_same(
    context: Context, model: Model, prompt: list[int]
) -> None:
    exact = read(context, prompt, 0, 0)
    small = Context(
        model, num_tokens=512, num_batch_tokens=64, cache_type_k="q8_0", cache_type_v="q8_0"
    )
    rounded = read(small, prompt, 0, 0)
    small.close()
    assert 0 < np.abs(exact - rounded).max() < 2.0
    assert exact.argmax() == rounded.argmax()


def test_an_unknown_cache_type_is_told(model: Model) -> None:
    with pytest.raises(ConfigError, match=r"no cache type 'q9'.*Known: f32, f16"):
        Context(model, num_tokens=256, cache_type_k="q9")
