"""Metrics and status tell what happened."""

from prometheus_client.parser import text_string_to_metric_families

from specproxy.core.tasks import spawn
from specproxy.testing import Break, StreamFault, until
from specproxy.testing.rig import Rig, proxied

NATIVE = {"prompt": "Hi", "n_predict": 40, "temperature": 0, "ignore_eos": True}


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
    async with proxied(pass_ms=2.0) as rig:
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
    assert status["reason"] == "no draft model is configured"
    assert values["specproxy_mode", "passthrough"] == 1.0
    assert ("specproxy_acceptance_rate", "") not in values
