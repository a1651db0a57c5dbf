"""Passes, slots and speculation: the text never changes, the number of passes does."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specproxy.testing import Language, NgramPool, SamplingParams, generate
from specproxy.testing.engine import Engine
from specproxy.testing.parameters import CompletionParams
from specproxy.testing.slot import Final, Partial, Result, Task, num_complete, partial_stop

LANGUAGE = Language(mean_length=60)
PROMPT = LANGUAGE.vocabulary.tokenize("The small bird", add_special=True)


class Run:
    """A task and what it emitted."""

    def __init__(self, prompt: list[int], seed: int = 0, **params: object) -> None:
        self.results: list[Result] = []
        given = CompletionParams(return_tokens=True, **params)  # type: ignore[arg-type]
        self.task = Task(0, prompt, given, seed, self.results.append)

    @property
    def final(self) -> Final:
        assert isinstance(self.results[-1], Final)
        return self.results[-1]


def engine(n_match: int = 2, **options: object) -> Engine:
    pool = NgramPool(n_match, 1, 16)
    return Engine(LANGUAGE, pool=pool, **options)  # type: ignore[arg-type]


def run(served: Engine, *runs: Run) -> None:
    for one in runs:
        served.submit(one.task)
    served.run()


@given(
    prompts=st.lists(
        st.lists(st.integers(0, 300), min_size=1, max_size=20), min_size=1, max_size=5
    ),
    seed=st.integers(0, 2**32 - 1),
    temperature=st.sampled_from([0.0, 0.8, 1.5]),
    wrong=st.floats(0, 1),
    num_slots=st.integers(1, 3),
    n_batch=st.sampled_from([8, 2048]),
)
@settings(max_examples=60, deadline=None)
def test_speculation_never_changes_output(
    prompts: list[list[int]],
    seed: int,
    temperature: float,
    wrong: float,
    num_slots: int,
    n_batch: int,
) -> None:
    """Whatever prompts, neighbours and seeds, right and wrong, share the pool."""
    served = engine(num_slots=num_slots, n_batch=n_batch)
    params = SamplingParams(temperature=temperature)
    rng = random.Random(seed)
    runs = []
    for prompt in prompts:
        expected = generate(
            LANGUAGE, prompt, max_tokens=20, sampling=SamplingParams(temperature, seed)
        )
        noise = [t if rng.random() > wrong else rng.randrange(300) for t in expected]
        served.submit(Run(prompt[-2:] + noise, num_predict=1).task)
        answer = Run(prompt, seed, num_predict=20, sampling=params)
        runs.append((answer, expected))
        served.submit(answer.task)
    served.run()
    for answer, expected in runs:
        assert list(answer.final.tokens) == expected


def test_a_seed_in_another_slot_is_verified_in_one_pass() -> None:
    served = engine(num_slots=2)
    expected = generate(LANGUAGE, PROMPT, max_tokens=10)
    answer = Run(PROMPT, num_predict=10, id_slot=0)
    seed = Run(PROMPT[-2:] + expected[:8], num_predict=1, id_slot=1)
    run(served, seed)
    before = len(served.passes)
    run(served, answer)
    assert list(answer.final.tokens) == expected
    assert len(served.passes) - before < 4
    assert answer.final.stats.num_accepted >= 6
    assert answer.final.stats.num_accepted <= answer.final.stats.num_drafted


def test_a_seed_helps_from_the_next_pass_on() -> None:
    """Begun while a pass runs: taken by the next, drafted from by the one after."""
    served = engine(num_slots=2)
    expected = generate(LANGUAGE, PROMPT, max_tokens=12)
    answer = Run(PROMPT, num_predict=12, id_slot=0)
    served.submit(answer.task)
    assert served.begin_pass() is not None
    served.submit(Run(PROMPT[-1:] + expected[:8], num_predict=1, id_slot=1).task)
    served.finish_pass()
    for drafts in (False, True):
        running = served.begin_pass()
        assert running is not None
        assert (0 in running.drafted) is drafts
        served.finish_pass()
    assert running.accepted[0] >= 5
    served.run()
    assert list(answer.final.tokens) == expected


def test_wrong_seeds_cost_no_pass_and_save_none() -> None:
    alone, disturbed = engine(num_slots=2), engine(num_slots=2)
    run(alone, first := Run(PROMPT, num_predict=12, id_slot=0))
    expected = generate(LANGUAGE, PROMPT, max_tokens=2)
    run(disturbed, Run([PROMPT[-1], expected[0], *([300] * 8)], num_predict=1, id_slot=1))
    before = len(disturbed.passes)
    run(disturbed, second := Run(PROMPT, num_predict=12, id_slot=0))
    assert first.final.tokens == second.final.tokens
    assert len(disturbed.passes) - before == len(alone.passes)
    assert second.final.stats.num_drafted > 0
    assert second.final.stats.num_accepted == 0


def test_a_half_right_seed_saves_its_right_half() -> None:
    served = engine(num_slots=2)
    expected = generate(LANGUAGE, PROMPT, max_tokens=12)
    seed = [PROMPT[-1], *expected[:5], *([300] * 4)]
    run(served, Run(seed, num_predict=1, id_slot=1))
    before = len(served.passes)
    run(served, answer := Run(PROMPT, num_predict=12, id_slot=0))
    assert list(answer.final.tokens) == expected
    drafting = served.passes[before + 1]
    assert drafting.drafted[0] > drafting.accepted[0] == 4
    assert drafting.emitted[0] == 5
    assert len(served.passes) - before == 12 - 4


def test_a_draft_leaves_room_for_the_sampled_token() -> None:
    served = engine()
    expected = generate(LANGUAGE, PROMPT, max_tokens=20)
    run(served, Run(PROMPT + expected, num_predict=1))
    run(served, answer := Run(PROMPT, num_predict=4))
    assert list(answer.final.tokens) == expected[:4]
    assert answer.final.stop_type == "limit"
    assert answer.final.stats.num_drafted == 2


def test_prefix_cache_evaluates_new_tokens_only() -> None:
    served = engine(num_slots=2)
    run(served, Run(PROMPT, num_predict=1, id_slot=1))
    run(served, again := Run([*PROMPT, 50, 51], num_predict=1, id_slot=1))
    assert again.final.stats.num_cached == len(PROMPT)
    assert again.final.stats.num_prompt == 2
    run(served, same := Run([*PROMPT, 50, 51], num_predict=1, id_slot=1))
    assert same.final.stats.num_prompt == 1
    run(served, cold := Run(PROMPT, num_predict=1, id_slot=1, cache_prompt=False))
    assert cold.final.stats.num_cached == 0


def test_a_busy_slot_defers_its_request() -> None:
    served = engine(num_slots=2)
    first = Run(PROMPT, num_predict=6, id_slot=0)
    second = Run(PROMPT, num_predict=6, id_slot=0)
    other = Run(PROMPT, num_predict=2, id_slot=3)
    for one in (first, second, other):
        served.submit(one.task)
    served.begin_pass()
    served.finish_pass()
    assert served.num_deferred == 1
    served.run()
    assert first.final.tokens == second.final.tokens
    assert (first.final.slot, second.final.slot, other.final.slot) == (0, 0, 1)


def test_slots_are_chosen_least_recently_used_or_by_similarity() -> None:
    strict = engine(num_slots=3, similarity=0.0)
    slots = []
    for _ in range(4):
        run(strict, one := Run(PROMPT, num_predict=1))
        slots.append(one.final.slot)
    assert slots == [2, 1, 0, 2]
    similar = engine(num_slots=3)
    run(similar, first := Run(PROMPT, num_predict=1))
    run(similar, second := Run(PROMPT, num_predict=1))
    assert first.final.slot == second.final.slot


def test_cancelling_frees_the_slot_before_the_next_pass() -> None:
    served = engine(num_slots=1)
    first, second = Run(PROMPT), Run(PROMPT, num_predict=3)
    served.submit(first.task)
    served.submit(second.task)
    served.begin_pass()
    served.finish_pass()
    served.cancel(first.task)
    served.run()
    assert second.final.stop_type == "limit"
    assert not any(isinstance(result, Final) for result in first.results)


def test_context_limits_are_refused_or_truncate() -> None:
    served = engine(num_slots=1, n_ctx=16)
    run(served, long := Run(list(range(100, 120))))
    assert "exceeds the available context size (16 tokens)" in str(long.results[-1])
    language = Language(mean_length=0)
    served = Engine(language, num_slots=1, n_ctx=16, pool=NgramPool(2, 1, 8))
    run(served, full := Run([100, 101]))
    assert full.final.truncated
    assert full.final.stop_type == "limit"


@pytest.mark.parametrize(
    ("stop", "text", "sent"),
    [
        (("Hello",), "", [""]),
        ((" world",), "Hello 😀", ["Hello", "", " 😀", ""]),
        (("world!",), "Hello 😀 world", ["Hello", " ", "😀", "", " world"]),
        ((" world!", "nope"), "Hello 😀 world", ["Hello", "", " 😀", "", " world"]),
    ],
)
def test_stop_strings_hold_back_what_may_become_one(
    stop: tuple[str, ...], text: str, sent: list[str]
) -> None:
    language = Language().with_script(PROMPT, "Hello 😀 world")
    served = Engine(language)
    answer = Run(PROMPT, stream=True, stop=stop)
    run(served, answer)
    partials = [result for result in answer.results if isinstance(result, Partial)]
    assert [partial.text.decode() for partial in partials] == sent
    assert b"".join(partial.text for partial in partials).decode() == text
    run(served, whole := Run(PROMPT, stop=stop))
    assert whole.final.text.decode() == text
    assert whole.final.stop_type == ("word" if text != "Hello 😀 world" else "eos")


def test_an_incomplete_character_sends_no_partial_and_loses_its_ids() -> None:
    language = Language().with_script(PROMPT, "😀")
    served = Engine(language)
    run(served, answer := Run(PROMPT, stream=True))
    partials = [result for result in answer.results if isinstance(result, Partial)]
    assert [(p.text, p.num_predicted) for p in partials] == [("😀".encode(), 4), (b"", 5)]


@given(st.text(), st.integers(0, 3))
def test_cut_off_characters_are_found(text: str, cut: int) -> None:
    data = text.encode()
    shorter = data[: len(data) - cut]
    complete = shorter[: num_complete(shorter)]
    assert complete.decode() == shorter.decode(errors="ignore")


def test_partial_stops() -> None:
    assert partial_stop(b"ab STO", b"STOP")
    assert not partial_stop(b"ab STOX", b"STOP")
    assert not partial_stop(b"ab", b"")
