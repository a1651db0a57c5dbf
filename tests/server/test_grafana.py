"""The example dashboard asks for metrics and labels that exist."""

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specproxy.testing.rig import proxied

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "grafana.json").read_text(encoding="utf-8")
)
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ASKED = {"prompt": "Hi", "n_predict": 40, "stream": True, "ignore_eos": True}


async def exported() -> dict[str, set[str]]:
    """Labels by the name of each series, after some answers."""
    async with proxied(pass_ms=2.0) as rig:
        for kind in ("native", "completions"):
            await rig.ask(kind, ASKED)
        await rig.rest()
        text = (await rig.send("GET", "/metrics")).raw.decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


async def test_every_query_is_of_metrics_and_labels_that_exist() -> None:
    series = await exported()
    used: set[str] = set()
    for query in QUERIES:
        names = re.findall(r"specproxy_[a-z_]+", query)
        assert names, query
        used.update(names)
        labels = {*re.findall(r"([a-z]+)=~?\"", query)}
        for group in re.findall(r"by \(([^)]*)\)", query):
            labels.update(part.strip() for part in group.split(","))
        for name in names:
            assert name in series, query
        assert labels <= set().union(*(series[name] for name in names)), query
    assert len(used) > 15


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
