"""One log line for each answer: how it went, and what became of its drafts."""

from dataclasses import asdict

import structlog

from specproxy.core.stats import DraftCounts
from specproxy.route import Route

log = structlog.get_logger(__name__)


def log_answer(
    route: Route, *, kind: str, outcome: str, ttft_s: float | None, counts: DraftCounts
) -> None:
    """Say it."""
    log.info(
        "answer",
        route=route.name,
        kind=kind,
        outcome=outcome,
        ttft_s=ttft_s and round(ttft_s, 3),
        **asdict(counts),
        acceptance_rate=counts.acceptance_rate and round(counts.acceptance_rate, 3),
        tokens_per_pass=counts.tokens_per_pass and round(counts.tokens_per_pass, 2),
    )
