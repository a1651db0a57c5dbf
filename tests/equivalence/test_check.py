"""A check passes only if what it is about happened."""

from typing import Any

import pytest

from specproxy.equivalence.check import CheckResult, Comparison, Extent, Pair
from specproxy.equivalence.histories import continued
from specproxy.equivalence.limit import filling, near_limit
from specproxy.equivalence.suite import SuiteResult, findings, run_checks, suite_grid
from specproxy.target.tokens import TargetTokens
from specproxy.testing import Language

LANGUAGE = Language(mean_length=60)
EXTENT = Extent(num_tokens=12, num_prompts=2, num_seeds=2)


async def test_without_speculation_nothing_is_proven(start_seeding: Any) -> None:
    async with start_seeding(LANGUAGE) as pair:
        suite = await run_checks(Pair("nothing", pair.control, pair.control), EXTENT)
    assert all(result.passed for result in suite.results)
    assert not suite.passed
    assert any("without speculation" in line for line in findings(suite))


async def test_a_cache_that_is_not_used_is_not_checked(
    start_seeding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_seeding(LANGUAGE) as pair:
        monkeypatch.setattr(Comparison, "through", Comparison.alone)
        result = await continued(pair, EXTENT)
    assert result.identical
    assert not result.passed
    assert "not used" in result.lacking


async def test_the_reuse_is_shown(start_seeding: Any) -> None:
    async with start_seeding(LANGUAGE) as pair:
        result = await continued(pair, EXTENT)
    assert result.passed
    assert result.evidence.startswith("reused ")
    assert result.evidence.endswith("control 0")


@pytest.mark.parametrize("num_prompt", [200, 333])
async def test_a_prompt_fills_what_it_should(start_seeding: Any, num_prompt: int) -> None:
    async with start_seeding(LANGUAGE) as pair:
        tokens = TargetTokens(pair.control)
        messages = await filling(tokens, num_prompt)
        used = len(await tokens.chat_prompt({"messages": messages}))
    assert num_prompt - 80 < used <= num_prompt


async def test_a_long_context_is_not_filled(start_seeding: Any) -> None:
    async with start_seeding(LANGUAGE) as pair:
        result = await near_limit(pair, Extent(longest_prompt=300))
    assert result.passed
    assert "--longest-prompt" in result.skipped
    grid = suite_grid(SuiteResult("seeding", [result]))
    assert grid.rows[0].cells[2] == "not run"


def test_what_is_lacking_is_said() -> None:
    suite = SuiteResult("seeding", [CheckResult("a check", lacking="nothing happened")])
    assert next(findings(suite)) == "NOT PROVEN in seeding, a check: nothing happened"
