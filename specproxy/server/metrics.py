"""Prometheus metrics, read from the routes whenever they are asked for.

Names follow vLLM's `spec_decode_*` where the meaning is the same. Labels: the route's name.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specproxy.core.stats import DraftCounts
from specproxy.route import Mode, Route

_COUNTS = {
    "spec_decode_num_draft_tokens": ("num_proposed", "Tokens that the target's pool proposed."),
    "spec_decode_num_accepted_tokens": ("num_accepted", "Proposed tokens the target accepted."),
    "generation_tokens": ("num_generated", "Tokens of answers that were followed."),
    "drafted_tokens": ("num_drafted", "Tokens that the draft model produced."),
    "seeded_tokens": ("num_seeded", "Drafted tokens sent to the target's pool."),
    "confirmed_tokens": ("num_confirmed", "Drafted tokens that the target said as drafted."),
    "pooled_tokens": ("num_pooled", "Confirmed tokens whose seed had arrived in time."),
    "branched_tokens": ("num_branched", "Confirmed tokens that were a branch's first."),
    "missed_tokens": ("num_missed", "Positions where the target said something else."),
    "undrafted_tokens": ("num_undrafted", "Tokens for which no draft was there in time."),
}
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """The proxy's registry. One per application."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_RouteCollector(list(routes)))
        self.requests = Counter(
            "specproxy_requests",
            "Generation requests by mode and by how they ended.",
            ["route", "mode", "outcome"],
            registry=self._registry,
        )
        self.first_token_s = Histogram(
            "specproxy_time_to_first_token_seconds",
            "From the request to the answer's first text.",
            ["route", "mode"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self._registry)


class _RouteCollector(Collector):
    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes

    def collect(self) -> Iterator[Metric]:
        for name, (field, help_text) in _COUNTS.items():
            family = CounterMetricFamily(f"specproxy_{name}", help_text, labels=["route"])
            for route in self._routes:
                family.add_metric([route.name], getattr(route.counts, field))
            yield family
        yield self._mode()
        yield self._gauge("acceptance_rate", "Accepted / proposed.", lambda c: c.acceptance_rate)
        yield self._gauge("tokens_per_pass", "Block efficiency.", lambda c: c.tokens_per_pass)
        for name, help_text in (
            ("running", "Answers being followed."),
            ("waiting", "Answers that wait for a slot."),
        ):
            gauge = GaugeMetricFamily(f"specproxy_{name}", help_text, labels=["route"])
            for route in self._routes:
                gauge.add_metric([route.name], getattr(route, f"num_{name}"))
            yield gauge

    def _mode(self) -> Metric:
        family = GaugeMetricFamily(
            "specproxy_mode", "1 for the mode the route is in.", labels=["route", "mode"]
        )
        for route in self._routes:
            for mode in Mode:
                family.add_metric([route.name, mode.value], float(route.mode is mode))
        return family

    def _gauge(
        self, name: str, help_text: str, value: Callable[[DraftCounts], float | None]
    ) -> Metric:
        family = GaugeMetricFamily(f"specproxy_{name}", help_text, labels=["route"])
        for route in self._routes:
            number = value(route.counts)
            if number is not None:
                family.add_metric([route.name], number)
        return family
