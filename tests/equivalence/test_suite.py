"""Every check over scripted servers: what passes, and what is found out."""

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from specproxy.equivalence.check import Extent
from specproxy.equivalence.command import verify
from specproxy.equivalence.suite import CHECKS, conclusion, findings, run_checks
from specproxy.testing import Language

LANGUAGE = Language(mean_length=60)
EXTENT = Extent(num_tokens=16, num_prompts=3, num_seeds=3)


async def test_a_proxy_that_seeds_passes_every_check(start_seeding: Any) -> None:
    async with start_seeding(LANGUAGE, pass_ms=8.0) as pair:
        suite = await run_checks(pair, EXTENT)
    assert list(findings(suite)) == []
    assert suite.passed
    assert len(suite.results) == len(CHECKS)
    assert all(result.compared for result in suite.results)
    assert sum(result.num_accepted for result in suite.results) > 90


async def test_a_proxy_before_a_coordinator_passes_every_check(start_coordinator: Any) -> None:
    async with start_coordinator(LANGUAGE) as pair:
        suite = await run_checks(pair, EXTENT)
    assert list(findings(suite)) == []
    assert suite.passed


async def test_another_model_is_found_out_by_every_check(start_seeding: Any) -> None:
    async with start_seeding(LANGUAGE, control=replace(LANGUAGE, key=7)) as pair:
        suite = await run_checks(pair, EXTENT)
    assert not suite.passed
    assert not any(result.passed for result in suite.results)
    assert conclusion([suite]).startswith("not identical")


async def test_the_command_prints_a_table_and_the_conclusion(start_seeding: Any) -> None:
    file = io.StringIO()
    out, quiet = Console(file=file, width=160), Console(quiet=True)
    right, wrong = replace(LANGUAGE, key=1), replace(LANGUAGE, key=2)
    checks = CHECKS[:1]
    starts = [lambda: start_seeding(LANGUAGE)]
    assert await verify(starts, EXTENT, quiet, out, checks=checks) == 0
    assert "serial greedy" in file.getvalue()
    assert "all identical (3 answers)" in file.getvalue()
    starts.append(lambda: start_seeding(right, control=wrong))
    assert await verify(starts, EXTENT, quiet, out, checks=checks) == 1
    assert "DIFFERENCE in seeding, serial greedy" in file.getvalue()
