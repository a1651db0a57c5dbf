"""Prometheus metrics, read from the routes whenever they are asked for.

Names follow vLLM's `spec_decode_*` where the meaning is the same. Labels: the route's name; beside
it nothing that grows: modes, outcomes, kinds of answers, origins of tokens, phases, positions.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from specproxy.core.alone import Basis
from specproxy.core.observed import Observed
from specproxy.core.origins import Origin
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
_HISTOGRAMS = {
    "pass_seconds": ("pass_time_s", "Time of a pass of the target; without each answer's first."),
    "inter_token_latency_seconds": (
        "token_gap_s",
        "Time per token, as the proxy sees them come: a pass's time over the tokens it brought.",
    ),
    "draft_token_seconds": ("draft_token_s", "Time that the draft takes for a token."),
    "pass_tokens": ("pass_tokens", "Tokens that a pass brought to an answer."),
}
_PHASES = ("draft", "seed", "pass", "wait")
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
        yield from self._observed()
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

    def _observed(self) -> Iterator[Metric]:
        """Of passes and tokens as they come, not only of answers that have ended."""
        for name, help_text, labels, values in (
            ("passes", "Passes that brought tokens, by answer.", (), _passes),
            ("spec_decode_num_drafts", "Passes that began with a draft.", (), _drafts),
            ("phase_seconds", "Time by phase; phases overlap.", ("phase",), _phases),
            ("tokens", "Tokens by kind of answer and origin.", ("kind", "origin"), _origins),
            ("seeds_failed", "Seeds that the target did not take.", (), _failed),
            (
                "spec_decode_num_accepted_tokens_per_pos",
                "Drafted tokens confirmed, by position after the start of a pass.",
                ("position",),
                lambda observed: _by_position(observed.positions.confirmed),
            ),
            (
                "spec_decode_num_decided_tokens_per_pos",
                "Drafted tokens confirmed or missed, by position after the start of a pass.",
                ("position",),
                lambda observed: _by_position(observed.positions.decided),
            ),
        ):
            family = CounterMetricFamily(f"specproxy_{name}", help_text, labels=["route", *labels])
            for route in self._routes:
                for label_values, value in values(route.observed):
                    family.add_metric([route.name, *label_values], value)
            yield family
        for name, (field, help_text) in _HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"specproxy_{name}", help_text, labels=["route"])
            for route in self._routes:
                found = getattr(route.observed, field)
                histogram.add_metric([route.name], list(found.cumulative()), found.sum)
            yield histogram
        yield from self._alone()

    def _alone(self) -> Iterator[Metric]:
        speed = GaugeMetricFamily(
            "specproxy_target_alone_tokens_per_second",
            "Speed of the target without specproxy: measured in plain passes, else an estimate.",
            labels=["route"],
        )
        measured = GaugeMetricFamily(
            "specproxy_target_alone_measured", "1 if that is no estimate.", labels=["route"]
        )
        for route in self._routes:
            alone = route.observed.alone.alone()
            speed.add_metric([route.name], math.nan if alone is None else alone.tokens_per_s)
            is_measured = alone is not None and alone.basis is Basis.MEASURED
            measured.add_metric([route.name], float(is_measured))
        yield speed
        yield measured

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


_Values = Iterator[tuple[tuple[str, ...], float]]


def _passes(observed: Observed) -> _Values:
    yield (), observed.total.num_passes


def _drafts(observed: Observed) -> _Values:
    yield (), observed.num_drafts


def _failed(observed: Observed) -> _Values:
    yield (), observed.num_seeds_failed


def _phases(observed: Observed) -> _Values:
    for phase in _PHASES:
        yield (phase,), getattr(observed.total, f"{phase}_s")


def _origins(observed: Observed) -> _Values:
    for kind in sorted({kind for kind, _ in observed.said}):
        for origin in Origin:
            yield (kind, origin.value), observed.said.get((kind, origin), 0)


def _by_position(counts: Iterable[int]) -> _Values:
    for position, count in enumerate(counts):
        yield (str(position),), count
