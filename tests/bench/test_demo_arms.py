"""Whole benchmarks on real pools, in miniature, on a link without delay."""

import io

import pytest
from rich.console import Console

from specproxy.bench.command import show
from specproxy.bench.export import to_json
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.pools import DemoParts, demo_arms
from specproxy.bench.report import Report
from specproxy.bench.runner import BenchOptions, run
from specproxy.bench.workloads import PROMPTS
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.target.facts import read_facts

PROMPTS_ASKED = (PROMPTS[0], PROMPTS[9])
FRONT_RTT_MS = 60.0
OPTIONS = BenchOptions(num_tokens=12, pause_s=0.1)


@pytest.mark.real
async def test_three_arms_on_real_pools(
    binaries: LlamaBinaries, demo_models: DemoModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "key")  # of a server of the user's own
    monkeypatch.setenv("SPECPROXY_ROUTES__LARGE__KEYS", '["guest"]')
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


@pytest.mark.real
async def test_a_far_proxy_with_a_recorded_draft_on_top_of_the_servers_own(
    binaries: LlamaBinaries, demo_models: DemoModels
) -> None:
    console = Console(file=io.StringIO(), width=160)
    parts = DemoParts(binaries, demo_models)
    kind = ProxyKind("seeding-on-draft", 4, front_rtt_ms=FRONT_RTT_MS, recorded_ms=5.0)
    async with demo_arms(
        parts, console, rtt_ms=0.0, kinds=(kind,), front_rtt_ms=FRONT_RTT_MS
    ) as arms:
        results = await run(arms, PROMPTS_ASKED, OPTIONS)
    alone, proxied = results
    assert [result.arm.kind for result in results] == [None, kind]
    for result in results:  # both reach the server over the link
        assert result.identical
        assert all(answer.ttft_s > FRONT_RTT_MS / 1e3 for answer in result.answers)
    assert alone.tally is None
    assert proxied.summary.num_proposed
    assert proxied.tally is not None
    # the route compares both ways: an answer may be left to the server's own draft
    assert proxied.tally.num_tokens <= proxied.summary.num_tokens
    drafter = proxied.arm.recorded
    assert drafter is not None
    assert drafter.num_recorded + drafter.num_holes > 0  # it was asked in any case
