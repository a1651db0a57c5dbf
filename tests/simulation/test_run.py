"""Seeding in virtual time."""

import asyncio
import random
import time

import pytest

from specproxy.settings import SeedingSettings
from specproxy.simulation.clock import run_virtually
from specproxy.simulation.run import Said, simulate
from specproxy.simulation.target import PassModel
from specproxy.simulation.words import ScriptedWords
from specproxy.testing.drafter import adversarial, noisy
from specproxy.testing.language import Language

LANGUAGE = Language(key=5, mean_length=0)
SLOW = PassModel(plain_s=0.5)


def workload(num_answers: int = 2, num_tokens: int = 64) -> list[Said]:
    found: list[Said] = []
    for number in range(num_answers):
        prompt = LANGUAGE.vocabulary.tokenize(f"Question {number}: what is it about?")
        tokens = list(prompt)
        while len(tokens) < len(prompt) + num_tokens:
            tokens.append(LANGUAGE.best(tokens))
        found.append((prompt, tokens[len(prompt) :]))
    return found


def test_time_passes_only_on_the_clock() -> None:
    async def sleep() -> float:
        began_s = asyncio.get_running_loop().time()
        await asyncio.sleep(3600.0)
        return asyncio.get_running_loop().time() - began_s

    began_s = time.monotonic()
    assert run_virtually(sleep()) == pytest.approx(3600.0)
    assert time.monotonic() - began_s < 60.0


def test_what_waits_for_ever_is_said() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        run_virtually(wait())


def test_right_drafts_are_seeded_and_save_passes() -> None:
    outcome = simulate(ScriptedWords(LANGUAGE), workload(), SLOW)
    assert sum(one.num_said for one in outcome.passes) == 2 * 63
    assert outcome.speed_up > 4.0
    assert outcome.num_plain < 20


def test_wrong_drafts_save_nothing_and_soon_end() -> None:
    words = ScriptedWords(LANGUAGE, adversarial)
    outcome = simulate(words, workload(1), SLOW)  # a second one may say what the first did
    assert outcome.num_plain == len(outcome.passes) == 63
    assert 0.9 < outcome.speed_up < 1.0


def test_misses_cost_passes() -> None:
    right = simulate(ScriptedWords(LANGUAGE), workload(), SLOW)
    torn = ScriptedWords(LANGUAGE, noisy(0.1, random.Random(3)))
    some = simulate(torn, workload(), SLOW)
    assert 1.0 < some.speed_up < right.speed_up


def test_the_same_seed_gives_the_same_passes() -> None:
    first, second, other = (
        simulate(ScriptedWords(LANGUAGE), workload(1), SLOW, seed=seed) for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_settings_are_those_of_the_product() -> None:
    none = SeedingSettings(lookahead_tokens=2)
    short = simulate(ScriptedWords(LANGUAGE), workload(1), SLOW, settings=none)
    assert short.tokens_per_pass < 2.0
    assert simulate(ScriptedWords(LANGUAGE), workload(1), SLOW).tokens_per_pass > 4.0
