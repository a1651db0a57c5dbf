"""Benchmarks end to end over scripted targets: what is measured, and what is found out."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.arms import Arm
from specproxy.bench.export import to_json
from specproxy.bench.judge import Judge
from specproxy.bench.report import Report, differences
from specproxy.bench.runner import BenchOptions, Watch, best_native, rotated, run
from specproxy.bench.stats import Answer
from specproxy.bench.table import arms_grid, on_terminal
from specproxy.bench.warm import passes_of, prompt_lengths, verified_lengths, warm_up
from specproxy.bench.workloads import PROMPTS, WARM_UPS, Prompt
from specproxy.errors import TargetError
from specproxy.testing import Language, ScriptedDrafter
from specproxy.testing.drafter import adversarial
from specproxy.testing.language import Distribution

TARGET = Language(mean_length=60)
OPTIONS = BenchOptions(num_tokens=24, pause_s=0.0)
THREE = PROMPTS[:3]


def is_text(piece: bytes) -> bool:
    return bool(piece.decode("utf-8", "ignore"))


class Wavering(Language):
    """The same language, but at some positions the two best tokens are almost equally likely."""

    def distribution(self, context: Any) -> Distribution:
        ordered = super().distribution(context)
        pieces = [self.vocabulary.piece(token) for token, _ in ordered[:2]]
        if len(context) % 5 or len(ordered) < 2 or not all(map(is_text, pieces)):
            return ordered
        (first, _), (second, _), *_ = ordered
        return ((first, 0.505), (second, 0.495))


class Tipped(Wavering):
    """`Wavering`, fallen to the other side."""

    def distribution(self, context: Any) -> Distribution:
        first, *others = super().distribution(context)
        if first[1] == 0.505:
            return ((others[0][0], 0.505), (first[0], 0.495))
        return (first, *others)


class Recorder(Watch):
    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.pieces: list[str] = []
        self.num_answered = 0

    def asking(self, arm: Arm, prompt: Prompt, index: int) -> None:
        self.asked.append((arm.name, index))

    def text(self, piece: str) -> None:
        self.pieces.append(piece)

    def answered(self, arm: Arm, answer: Answer) -> None:
        self.num_answered += 1


async def test_three_arms_are_measured_and_found_identical(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    native = await scripted_arms.plain(TARGET, name="native", label="own draft, n=4")
    proxied = await scripted_arms.proxied(TARGET, pass_ms=10.0)
    arms = [plain, replace(native, draft_n=4), proxied]
    watch = Recorder()
    results = await run(arms, THREE, OPTIONS, watch)
    assert [result.arm.name for result in results] == ["target", "native", "specproxy"]
    assert all(result.identical and result.num_ties == 0 for result in results)
    assert len({result.summary.num_tokens for result in results}) == 1
    alone, _, fast = (result.summary for result in results)
    assert alone.acceptance_rate is None
    assert fast.acceptance_rate is not None
    assert fast.tokens_per_pass is not None
    assert fast.tokens_per_pass > 2.0
    assert fast.mean_accepted_length is not None
    assert fast.mean_accepted_length > 1.0
    assert fast.num_passes < alone.num_passes
    assert results[2].proxy_counts["num_answers"] == len(THREE)
    assert results[2].proxy_counts["num_generated"] == fast.num_tokens
    assert results[0].proxy_counts == {}
    assert watch.num_answered == 9
    assert watch.asked[:6] == [
        *(("target", 0), ("native", 0), ("specproxy", 0)),
        *(("native", 1), ("specproxy", 1), ("target", 1)),
    ]
    assert "".join(watch.pieces).startswith(results[0].answers[0].text)


async def test_a_wrong_draft_is_slower_and_still_identical(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    drafter = ScriptedDrafter(TARGET, adversarial)
    proxied = await scripted_arms.proxied(TARGET, drafter)
    results = await run([plain, proxied], THREE, OPTIONS)
    assert drafter.calls
    assert results[1].identical
    assert results[1].summary.num_tokens == results[0].summary.num_tokens


async def test_another_model_is_found_out(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    other = await scripted_arms.plain(replace(TARGET, key=7), name="native", label="another")
    results = await run([plain, other], THREE, OPTIONS)
    assert results[0].identical
    assert not results[1].identical
    report = make_report(results)
    assert not report.identical
    assert all(line.startswith("DIFFERENCE in another") for line in differences(report))
    assert len(differences(report)) == len(THREE)
    found = to_json(report, {})
    assert [arm["identical"] for arm in found["arms"]] == [True, False]
    assert found["arms"][1]["answers"][0]["difference"]["position"] >= 0


async def test_a_near_tie_is_a_tie_and_what_follows_is_still_checked(scripted_arms: Any) -> None:
    wavering, tipped = Wavering(mean_length=0), Tipped(mean_length=0)
    plain = await scripted_arms.plain(wavering)
    other = await scripted_arms.plain(tipped, name="native", label="tipped")
    strict = replace(OPTIONS, tie_margin=0.001)
    results = await run([plain, other], THREE, OPTIONS)
    assert results[1].identical
    assert results[1].num_ties >= 2 * len(THREE)
    assert all(verdict.ties for verdict in results[1].verdicts)
    for verdict in results[1].verdicts:
        positions = [tie.position for tie in verdict.ties]
        assert positions == sorted(set(positions))
        assert all((later - one) % 5 == 0 for one, later in pairwise(positions))
    assert not (await run([plain, other], THREE, strict))[1].identical


async def test_a_lie_after_a_tie_is_found_out(scripted_arms: Any) -> None:
    wavering, tipped = Wavering(mean_length=0), Tipped(mean_length=0)
    plain = await scripted_arms.plain(wavering)
    other = await scripted_arms.plain(tipped, name="native", label="tipped")
    messages = PROMPTS[0].messages
    reference = await ask(plain.front, messages, 24)
    answer = await ask(other.front, messages, 24)
    judge = Judge(plain.server)
    verdict = await judge.judge(messages, 24, reference=reference, answer=answer)
    assert verdict.identical
    assert judge.num_replays > 1
    lie = replace(answer, text=answer.text[:-3] + "xyz")
    verdict = await judge.judge(messages, 24, reference=reference, answer=lie)
    assert not verdict.identical
    assert verdict.ties
    assert verdict.difference is not None
    assert verdict.difference.gap is None


@pytest.mark.parametrize("cut", [0.0, 0.5])
async def test_an_answer_cut_short_is_a_difference(scripted_arms: Any, cut: float) -> None:
    plain = await scripted_arms.plain(Language(mean_length=0))
    messages = PROMPTS[0].messages
    reference = await ask(plain.front, messages, 24)
    kept = int(len(reference.text) * cut)
    short = replace(reference, text=reference.text[:kept], num_tokens=4)
    judge = Judge(plain.server)
    verdict = await judge.judge(messages, 24, reference=reference, answer=short)
    assert not verdict.identical
    longer = replace(reference, text=reference.text + " more", num_tokens=25)
    verdict = await judge.judge(messages, 24, reference=reference, answer=longer)
    assert not verdict.identical


async def test_an_equal_answer_needs_no_replay(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    reference = await ask(plain.front, PROMPTS[0].messages, 8)
    judge = Judge(plain.server)
    verdict = await judge.judge(PROMPTS[0].messages, 8, reference=reference, answer=reference)
    assert verdict.identical
    assert judge.num_replays == 0


async def test_an_answer_that_is_refused_names_the_server(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    with pytest.raises(TargetError, match=plain.front.name):
        await ask(plain.front, [{"content": "no role"}], 8)


async def test_prompt_lengths_cover_cached_beginnings(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    one = Prompt("a", ("Hello sea",))
    other = Prompt("b", ("Hello sun",))
    lengths = await prompt_lengths(plain.server, [one, other])
    whole = max(lengths)
    assert len(lengths) == 2
    assert min(lengths) < whole


async def test_each_arm_has_run_every_length_it_may_need(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET, new_length_ms=20.0)
    native = await scripted_arms.plain(TARGET, name="native", label="own draft, n=4")
    native = replace(native, draft_n=4)
    assert (verified_lengths(plain), verified_lengths(native)) == ({1}, {1, 2, 3, 4, 5})
    warmed = await warm_up([plain, native], THREE, num_tokens=8)
    needed = await prompt_lengths(plain.server, [*WARM_UPS, *THREE])
    for arm, found in zip((plain, native), warmed, strict=True):
        run_lengths = {one.num_tokens for one in scripted_arms.targets[arm.label].passes}
        assert needed | verified_lengths(arm) <= run_lengths
        assert found.num_lengths == len(needed | verified_lengths(arm))


async def test_a_fast_link_needs_no_lengths(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    scripted_arms.targets[plain.label].clock.pass_ms = 20.0  # far above what a busy machine adds
    (warmed,) = await warm_up([plain], THREE, num_tokens=8)
    assert (warmed.num_lengths, warmed.num_chats) == (0, len(WARM_UPS))


def test_long_prompts_are_read_in_several_passes() -> None:
    assert passes_of(29) == {29}
    assert passes_of(512) == {512}
    assert passes_of(2100) == {512, 52}


def test_rotated() -> None:
    assert [rotated(3, by) for by in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


async def test_the_report_has_what_the_issue_asks_for(scripted_arms: Any) -> None:
    plain = await scripted_arms.plain(TARGET)
    slow = await scripted_arms.plain(TARGET, name="native", label="own draft, n=4")
    fast = await scripted_arms.plain(TARGET, name="native", label="own draft, n=8")
    proxied = await scripted_arms.proxied(TARGET)
    arms = [plain, replace(slow, draft_n=4), replace(fast, draft_n=8), proxied]
    results = await run(arms, THREE[:1], OPTIONS)
    report = make_report(results, THREE[:1])
    found = json.loads(json.dumps(to_json(report)))
    assert found["link"] == {"rtt_ms": 80.0, "workers": 2, "front_rtt_ms": 0.0}
    assert [arm["name"] for arm in found["arms"]] == ["target", "native", "specproxy"]
    wanted = {"name", "tokens_per_s", "ttft_ms", "tokens", "identical", "ties"}
    wanted |= {"acceptance_rate", "tokens_per_pass", "mean_accepted_length", "against_native"}
    wanted |= {"tokens_per_s_interval", "speedup_interval", "against_native_interval"}
    for arm in found["arms"]:
        assert wanted <= set(arm)
        assert arm["identical"] is True
        assert arm["ties"] == 0
        assert arm["tokens"] == results[0].summary.num_tokens
        assert arm["warm_up"]["num_chats"] == len(WARM_UPS)
    best = best_native(results)
    assert best is not None
    assert found["arms"][1]["draft_n"] == best.arm.draft_n
    assert len(found["other_arms"]) == 1
    assert {found["arms"][1]["draft_n"], found["other_arms"][0]["draft_n"]} == {4, 8}
    assert found["arms"][2]["proxy"]["num_answers"] == 1
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["llama_server"] == "b1"
    assert on_terminal(arms_grid(report)).row_count == 4


def make_report(results: Any, prompts: Any = THREE) -> Report:
    return Report(
        results, prompts, OPTIONS, rtt_ms=80.0, num_workers=2, mode="seeding", llama_build="b1"
    )
