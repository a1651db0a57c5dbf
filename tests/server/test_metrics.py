"""Metrics and status tell what happened."""

from prometheus_client.parser import text_string_to_metric_families

from specproxy.core.passes import MIN_GAP_S
from specproxy.core.tasks import spawn
from specproxy.testing import Break, CannedAnswer, StreamFault, until
from specproxy.testing.rig import Rig, proxied

NATIVE = {"prompt": "Hi", "n_predict": 40, "temperature": 0, "ignore_eos": True}
TOKENS = "specproxy_tokens_total"
TOLD_APART_MS = 2e3 * MIN_GAP_S
"""Passes that are told apart on a quiet machine, too."""


async def samples(rig: Rig) -> dict[tuple[str, str], float]:
    """Values by (name, the labels other than the route's, sorted)."""
    got = await rig.send("GET", "/metrics")
    assert got.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(got.raw.decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            if "route" in labels:
                assert labels.pop("route") == "default"
            found[sample.name, ",".join(labels[key] for key in sorted(labels))] = sample.value
    return found


async def test_metrics_and_status_agree() -> None:
    async with proxied(probed=True, pass_ms=2.0) as rig:
        for stream in (True, False):
            await rig.ask("native", {**NATIVE, "stream": stream})
        await rig.rest()
        values = await samples(rig)
        (status,) = (await rig.send("GET", "/specproxy/status")).json["routes"]
    counts = status["counts"]
    assert values["specproxy_generation_tokens_total", ""] == counts["num_generated"] == 80
    assert values["specproxy_spec_decode_num_draft_tokens_total", ""] == counts["num_proposed"] > 0
    accepted = values["specproxy_spec_decode_num_accepted_tokens_total", ""]
    assert accepted == counts["num_accepted"] > 0
    for name in ("drafted", "seeded", "confirmed", "pooled", "branched", "missed", "undrafted"):
        assert values[f"specproxy_{name}_tokens_total", ""] == counts[f"num_{name}"]
    assert values["specproxy_acceptance_rate", ""] == status["acceptance_rate"]
    assert values["specproxy_tokens_per_pass", ""] == status["tokens_per_pass"] > 1.0
    assert values["specproxy_mode", "seeding"] == 1.0
    assert values["specproxy_mode", "passthrough"] == values["specproxy_mode", "starting"] == 0.0
    assert values["specproxy_requests_total", "seeding,finished"] == 2.0
    assert values["specproxy_time_to_first_token_seconds_count", "seeding"] == 2.0
    assert values["specproxy_running", ""] == values["specproxy_waiting", ""] == 0.0
    assert (status["mode"], status["ready"], status["draft_alive"]) == ("seeding", True, True)
    assert (status["name"], status["running"], status["waiting"]) == ("default", 0, 0)
    assert status["target"] == rig.target.url.removeprefix("http://")
    assert "n_match 4" in status["reason"]


async def test_outcomes_are_told_apart() -> None:
    async with proxied() as rig:
        rig.target.faults.stream = StreamFault(Break.RESET, after_events=2)
        for stream in (True, False):
            await rig.ask("native", {**NATIVE, "stream": stream})
        rig.target.faults.clear()
        await rig.ask("native", {**NATIVE, "prompt": [99999], "stream": True})
        await rig.rest()
        values = await samples(rig)
    assert values["specproxy_requests_total", "seeding,broken"] == 2.0
    assert values["specproxy_requests_total", "seeding,refused"] == 1.0
    assert ("specproxy_requests_total", "seeding,cancelled") not in values


async def test_outcomes_of_answers_that_the_target_refuses_or_never_begins() -> None:
    failed = b'data: {"error":{"code":500,"message":"no","type":"server_error"}}\n\n'
    async with proxied(poll_s=60.0) as rig:
        rig.target.faults.answer = CannedAnswer(200, failed, "text/event-stream")
        bodies = [{**NATIVE, "stream": True, **more} for more in ({}, {"id_slot": 0})]
        for body in bodies:
            assert b'"no"' in (await rig.ask("native", body)).raw
        await rig.target.down()
        for body in (*bodies, {**NATIVE, "stream": False}):
            assert (await rig.ask("native", body)).status == 503
        await rig.rest()
        values = await samples(rig)
    assert values["specproxy_requests_total", "seeding,refused"] == 1.0
    assert values["specproxy_requests_total", "passthrough,refused"] == 1.0
    assert values["specproxy_requests_total", "seeding,broken"] == 2.0
    assert values["specproxy_requests_total", "passthrough,broken"] == 1.0
    for mode in ("seeding", "passthrough"):
        for outcome in ("cancelled", "finished"):
            assert ("specproxy_requests_total", f"{mode},{outcome}") not in values


async def test_running_and_waiting_answers_show() -> None:
    async with proxied(num_slots=2) as rig:
        rig.target.clock.hold()
        asked = [spawn(rig.ask("native", NATIVE), name=f"ask {i}") for i in range(3)]
        await until(lambda: rig.server.route.num_waiting == 2)
        await until(lambda: rig.server.route.num_running == 1)
        values = await samples(rig)
        rig.target.clock.go()
        for task in asked:
            assert (await task).status == 200
        await rig.rest()
        later = await samples(rig)
    assert (values["specproxy_running", ""], values["specproxy_waiting", ""]) == (1.0, 2.0)
    assert (later["specproxy_running", ""], later["specproxy_waiting", ""]) == (0.0, 0.0)


async def test_status_without_a_draft() -> None:
    async with proxied(has_draft=False) as rig:
        (status,) = (await rig.send("GET", "/specproxy/status")).json["routes"]
        values = await samples(rig)
    assert (status["mode"], status["draft_alive"]) == ("passthrough", False)
    assert status["reason"] == "no draft model is loaded"
    assert values["specproxy_mode", "passthrough"] == 1.0
    assert ("specproxy_acceptance_rate", "") not in values


async def test_histograms_and_counters_of_passes_agree() -> None:
    async with proxied(pass_ms=TOLD_APART_MS) as rig:
        for kind in ("native", "completions"):
            await rig.ask(kind, {**NATIVE, "max_tokens": 40, "stream": True})
        await rig.rest()
        values = await samples(rig)
        (status,) = (await rig.send("GET", "/specproxy/status")).json["routes"]
    observed = status["observed"]
    num_tokens = sum(value for (name, _), value in values.items() if name == TOKENS)
    assert num_tokens == values["specproxy_pass_tokens_sum", ""] == 80.0
    passes = values["specproxy_passes_total", ""]
    assert values["specproxy_pass_tokens_count", ""] == passes
    assert passes > values["specproxy_pass_seconds_count", ""] > 0
    assert values["specproxy_pass_tokens_bucket", "+Inf"] == passes
    assert 0 < values["specproxy_inter_token_latency_seconds_count", ""] < 80
    assert values["specproxy_draft_token_seconds_count", ""] > 0
    assert values["specproxy_spec_decode_num_drafts_total", ""] <= passes
    for phase in ("draft", "seed", "pass"):
        assert values["specproxy_phase_seconds_total", phase] > 0.0
    confirmed, decided = (
        sum(
            values[f"specproxy_spec_decode_num_{word}_tokens_per_pos_total", str(position)]
            for position in range(24)
        )
        for word in ("accepted", "decided")
    )
    assert 0 < confirmed <= decided
    pairs = observed["by_position"]
    assert (confirmed, decided) == (sum(c for c, _ in pairs), sum(d for _, d in pairs))
    assert set(observed["by_kind"]) == {"native", "completions"}
    assert observed["by_kind"]["native"]["num_tokens"] == 40
    assert observed["windows"]["1m"]["num_answers"] == 2
    assert observed["speed"]["now"] > 0
    assert [one["mode"] for one in observed["decisions"]] == ["seeding"]


async def test_labels_are_bounded() -> None:
    async with proxied(pass_ms=1.0) as rig:
        for kind in ("native", "completions", "chat"):
            body = {**NATIVE, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
            await rig.ask(kind, body, headers={"x-request-id": "a-request"})
        await rig.rest()
        text = (await rig.send("GET", "/metrics")).raw.decode()
    assert "a-request" not in text
    assert len(text.splitlines()) < 400
