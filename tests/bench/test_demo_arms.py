"""A whole benchmark on real pools, in miniature: three arms, a link without delay."""

import io

import pytest
from rich.console import Console

from specproxy.bench.command import show
from specproxy.bench.export import to_json
from specproxy.bench.pools import DemoParts, demo_arms
from specproxy.bench.report import Report
from specproxy.bench.runner import BenchOptions, run
from specproxy.bench.workloads import PROMPTS
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.target.facts import read_facts

PROMPTS_ASKED = (PROMPTS[0], PROMPTS[9])
OPTIONS = BenchOptions(num_tokens=12, pause_s=0.1)


@pytest.mark.real
async def test_three_arms_on_real_pools(binaries: LlamaBinaries, demo_models: DemoModels) -> None:
    console = Console(file=io.StringIO(), width=160)
    parts = DemoParts(binaries, demo_models)
    async with demo_arms(parts, console, rtt_ms=0.0, draft_ns=(4,)) as arms:
        results = await run(arms, PROMPTS_ASKED, OPTIONS)
        facts = await read_facts(arms[0].server)
    report = Report(
        results,
        PROMPTS_ASKED,
        OPTIONS,
        rtt_ms=0.0,
        num_workers=2,
        mode="seeding",
        llama_build=facts.build,
    )
    show(report, console)
    target, native, proxied = to_json(report)["arms"]
    assert [arm["name"] for arm in (target, native, proxied)] == ["target", "native", "specproxy"]
    assert all(arm["identical"] for arm in (target, native, proxied))
    assert target["tokens"] == 24
    assert target["acceptance_rate"] is None
    assert target["tokens_per_pass"] == 1
    assert native["tokens_per_pass"] > 1
    assert proxied["proxy"]["num_answers"] == 2
    assert proxied["proxy"]["num_generated"] == proxied["tokens"]
    # Two clocks, one at each end of a loopback connection: they must tell the same story.
    for arm in (target, native, proxied):
        assert arm["tokens_per_s"] == pytest.approx(arm["tokens_per_s_server"], rel=0.3)
        assert 0 < arm["ttft_ms"] <= arm["ttft_ms_max"]
