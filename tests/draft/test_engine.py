"""The real drafter equals a plain greedy loop, whatever it caches, rolls back or batches."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from specproxy.core.drafted import DraftToken
from specproxy.core.tasks import spawn
from specproxy.draft.engine import LlamaDrafter, LlamaSequence
from specproxy.draft.limited import LimitedDrafter
from specproxy.draft.protocol import Drafter, DraftSequence
from specproxy.llama.vocabulary import ModelVocabulary

pytestmark = pytest.mark.real
Prompts = tuple[str, ...]
Greedy = Callable[[Sequence[int], int], list[DraftToken]]
Same = Callable[..., None]


async def test_it_implements_the_protocol(shared_drafter: LlamaDrafter) -> None:
    drafter: Drafter = shared_drafter
    sequence: DraftSequence = drafter.open()
    assert drafter.alive
    assert drafter.can_branch
    sequence.close()
    sequence.close()


async def test_greedy_equals_the_plain_loop(
    shared_drafter: LlamaDrafter,
    vocabulary: ModelVocabulary,
    plain_greedy: Greedy,
    prompts: Prompts,
    assert_same: Same,
) -> None:
    for prompt in prompts[:2]:
        tokens = vocabulary.tokenize(prompt)
        sequence = shared_drafter.open()
        found = await sequence.draft(tokens, 10)
        sequence.close()
        assert_same(plain_greedy(tokens, 10), found, prompt)
        assert all(len(token.alternatives) == 3 for token in found)
        assert all(0 < token.probability <= 1 for token in found)


async def test_a_confirmed_draft_is_not_read_again(
    shared_drafter: LlamaDrafter,
    vocabulary: ModelVocabulary,
    plain_greedy: Greedy,
    prompts: Prompts,
    assert_same: Same,
) -> None:
    tokens = vocabulary.tokenize(prompts[2])
    sequence = shared_drafter.open()
    await sequence.draft(tokens, 0)
    before = shared_drafter.num_decoded_tokens
    first = await sequence.draft(tokens, 4)
    assert shared_drafter.num_decoded_tokens - before == 4  # the last of the prompt, then three
    longer = [*tokens, *(token.token for token in first)]
    before = shared_drafter.num_decoded_tokens
    second = await sequence.draft(longer, 4)
    assert shared_drafter.num_decoded_tokens - before == 4  # the fourth, then three
    assert_same(plain_greedy(tokens, 8), [*first, *second])
    sequence.close()


async def test_a_miss_is_rolled_back(
    shared_drafter: LlamaDrafter,
    vocabulary: ModelVocabulary,
    plain_greedy: Greedy,
    prompts: Prompts,
    assert_same: Same,
) -> None:
    tokens = vocabulary.tokenize(prompts[0])
    sequence = shared_drafter.open()
    first = await sequence.draft(tokens, 8)
    missed = first[2].alternatives[0][0]
    other = [*tokens, first[0].token, first[1].token, missed]
    before = shared_drafter.num_decoded_tokens
    found = await sequence.draft(other, 6)
    assert shared_drafter.num_decoded_tokens - before == 6
    assert_same(plain_greedy(other, 6), found, "after a miss")
    shorter = tokens[:6]
    assert_same(plain_greedy(shorter, 4), await sequence.draft(shorter, 4), "cut back")
    sequence.close()


async def test_the_next_turn_of_a_closed_conversation_reads_only_what_is_new(
    shared_drafter: LlamaDrafter, vocabulary: ModelVocabulary, prompts: Prompts
) -> None:
    tokens = vocabulary.tokenize(prompts[1] * 2)
    sequence = shared_drafter.open()
    await sequence.draft(tokens, 1)
    sequence.close()
    before = shared_drafter.num_decoded_tokens
    following = shared_drafter.open()
    await following.draft([*tokens, 30, 31], 1)
    assert shared_drafter.num_decoded_tokens - before == 2
    following.close()


async def test_four_interleaved_sequences_do_not_mix(
    shared_drafter: LlamaDrafter,
    vocabulary: ModelVocabulary,
    plain_greedy: Greedy,
    prompts: Prompts,
    assert_same: Same,
) -> None:
    contexts = [vocabulary.tokenize(prompt) for prompt in prompts]
    contexts[1] *= 4  # one reads for longer while the others draft
    alone = [plain_greedy(tokens, 12) for tokens in contexts]
    sequences = [shared_drafter.open() for _ in prompts]
    before = shared_drafter.num_steps, shared_drafter.num_decoded_tokens

    async def in_pieces(sequence: LlamaSequence, tokens: list[int]) -> list[DraftToken]:
        drafted: list[DraftToken] = []
        while len(drafted) < 12:
            known = [*tokens, *(token.token for token in drafted)]
            piece = await sequence.draft(known, 4)
            drafted += piece
            if not piece or vocabulary.is_end(piece[-1].token):
                break
        return drafted

    together = await asyncio.gather(*map(in_pieces, sequences, contexts))
    steps = shared_drafter.num_steps - before[0]
    decoded = shared_drafter.num_decoded_tokens - before[1]
    assert decoded / steps > 2  # they did share passes
    for prompt, expected, found in zip(prompts, alone, together, strict=True):
        assert_same(expected, found, prompt)
    for sequence in sequences:
        sequence.close()


async def test_an_end_token_ends_the_draft(
    shared_drafter: LlamaDrafter, vocabulary: ModelVocabulary
) -> None:
    chat = (
        "<|im_start|>user\nSay only: yes<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
        "<|im_start|>user\nSay only: yes<|im_end|>\n<|im_start|>assistant\nYes."
    )
    sequence = shared_drafter.open()
    found = await sequence.draft(vocabulary.tokenize(chat, parse_special=True), 8)
    assert [vocabulary.is_end(token.token) for token in found] == [
        *[False] * (len(found) - 1),
        True,
    ]
    sequence.close()


async def test_tokens_are_told_as_they_come(
    shared_drafter: LlamaDrafter, vocabulary: ModelVocabulary, prompts: Prompts, call: Any
) -> None:
    drafting = call(shared_drafter.open(), vocabulary.tokenize(prompts[3]), 6)
    await drafting.heard(1)
    assert not drafting.task.done()
    assert drafting.told == (await drafting.task)
    drafting.sequence.close()


async def test_ids_that_the_target_lacks_are_never_drafted(
    draft_model_path: Path, vocabulary: ModelVocabulary, prompts: Prompts
) -> None:
    drafter = LlamaDrafter(draft_model_path, num_sequences=2, context_tokens=512)
    limited = LimitedDrafter(drafter, 300)
    prompt = vocabulary.tokenize(prompts[0])
    found, free = await asyncio.gather(
        limited.open().draft(prompt, 5), drafter.open().draft(prompt, 5)
    )
    ids = [i for token in found for i in (token.token, *(i for i, _ in token.alternatives))]
    assert ids
    assert max(ids) < 300
    assert max(token.token for token in free) >= 300  # whoever shares the model is not limited
    with pytest.raises(ValueError):
        LimitedDrafter(drafter, 0).open()
    await drafter.aclose()


async def test_the_loop_runs_on_while_it_reads(
    shared_drafter: LlamaDrafter, vocabulary: ModelVocabulary, prompts: Prompts
) -> None:
    """The loop turns many times within a read that takes many decode steps."""
    tokens = vocabulary.tokenize(prompts[0] * 12)
    sequence = shared_drafter.open()
    steps_before = shared_drafter.num_steps
    reading = spawn(sequence.draft(tokens, 1), name="read")
    turns = 0
    longest_s = 0.0
    began_s = time.monotonic()
    while not reading.done():
        turn_s = time.monotonic()
        await asyncio.sleep(0.005)
        longest_s = max(longest_s, time.monotonic() - turn_s)
        turns += 1
    took_s = time.monotonic() - began_s
    assert len(await reading) == 1
    assert turns > shared_drafter.num_steps - steps_before
    assert longest_s < took_s / 2
    sequence.close()
