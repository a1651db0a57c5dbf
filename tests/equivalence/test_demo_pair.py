"""The whole suite on real pools: what `specproxy verify-equivalence --demo` does."""

import io

import pytest
from rich.console import Console

from specproxy.bench.kinds import Way
from specproxy.bench.pools import DemoParts
from specproxy.equivalence.check import Extent
from specproxy.equivalence.pairs import demo_pair
from specproxy.equivalence.suite import findings, run_checks
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels

EXTENT = Extent(num_tokens=24, num_prompts=3, num_seeds=3)


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["seeding", "coordinator"])
async def test_every_check_on_real_pools(
    way: Way,
    binaries: LlamaBinaries,
    demo_models: DemoModels,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "key")  # of a server of the user's own
    monkeypatch.setenv("SPECPROXY_ROUTES__LARGE__KEYS", '["guest"]')
    console = Console(file=io.StringIO())
    async with demo_pair(DemoParts(binaries, demo_models), way, console) as pair:
        suite = await run_checks(pair, EXTENT)
    assert suite.passed, list(findings(suite))
    assert not any(result.skipped for result in suite.results)
    print([line for line in findings(suite) if line.startswith("tie")])
