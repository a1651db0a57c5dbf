"""What a route shows of itself, as JSON: for the status, and for the page."""

import codecs
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from specproxy.core.alone import Alone
from specproxy.core.horizon import nodes_to_await
from specproxy.core.observed import Observed, ObservedAnswer
from specproxy.core.origins import Origin
from specproxy.core.tally import Tally
from specproxy.core.timeline import Timeline
from specproxy.core.vocabulary import Vocabulary
from specproxy.route import Mode, Route
from specproxy.route.choice import Way
from specproxy.ways.coordinator import WINDOW
from specproxy.ways.seeding import SeedingWay

NUM_SHOWN = 8
"""Running answers whose texts are shown at once."""


def status_of(route: Route) -> dict[str, Any]:
    """What it does now, and why; what it has learned. No texts."""
    counts = route.counts
    return {
        "name": route.name,
        "target": route.client.name,
        "mode": route.mode.value,
        "reason": route.reason,
        "ready": route.ready.is_set(),
        "draft_alive": route.drafter is not None and route.drafter.alive,
        "running": route.num_running,
        "waiting": route.num_waiting,
        "counts": asdict(counts),
        "acceptance_rate": counts.acceptance_rate,
        "tokens_per_pass": counts.tokens_per_pass,
        "observed": _observed(route),
    }


def present(route: Route, *, texts: bool) -> dict[str, Any]:
    """The status, and the answers that run now.

    Args:
        texts: with the texts of prompts and answers.
    """
    now_s = time.monotonic()
    answers = list(route.observed.running.values())
    vocabulary = route.drafter.vocabulary if route.drafter is not None else None
    return {
        **status_of(route),
        "answers": [
            _answer(answer, now_s, vocabulary if texts else None) for answer in answers[:NUM_SHOWN]
        ],
        "num_more": max(0, len(answers) - NUM_SHOWN),
    }


def history(route: Route) -> dict[str, Any]:
    """Acceptance, tokens per pass and speed over time: finely, and over the day."""
    observed = route.observed
    day_s = observed.day_s(time.monotonic())
    return {
        "name": route.name,
        "15m": _points(observed.recent, day_s),
        "24h": _points(observed.record.day, day_s),
    }


def _observed(route: Route) -> dict[str, Any]:
    observed, record = route.observed, route.observed.record
    now_s = time.monotonic()
    return {
        "windows": {name: tally.as_json() for name, tally in observed.windows(now_s).items()},
        "by_kind": {kind: tally.as_json() for kind, tally in record.kinds.items()},
        "by_position": record.positions.as_json(),
        "speed": _speed(observed, now_s),
        "policy": _policy(route),
        "decisions": [asdict(decision) for decision in reversed(observed.decisions)],
        "draft": None if route.drafter is None else route.drafter.vocabulary.name,
        "facts": _facts(route),
    }


def _speed(observed: Observed, now_s: float) -> dict[str, Any]:
    """Now, against the target alone; None where nothing is known."""
    windows = observed.windows(now_s)
    recent = windows["1m"] if windows["1m"].num_timed else windows["15m"]
    alone = observed.alone.alone()
    return {"now": recent.tokens_per_s, "alone": None if alone is None else _alone(alone)}


def _alone(alone: Alone) -> dict[str, Any]:
    return {
        "tokens_per_s": alone.tokens_per_s,
        "basis": alone.basis.value,
        "num_passes": alone.num_passes,
    }


def _policy(route: Route) -> dict[str, Any]:
    """What the next pass would wait for, and the figures behind it."""
    acceptance = route.learned.acceptance.average
    token_s = route.learned.draft_pace.token_s or route.observed.draft_token_s.mean
    pass_s = route.learned.pass_pace.pass_s or route.observed.pass_time_s.mean
    awaited = None
    if route.mode is Mode.COORDINATOR:
        awaited = nodes_to_await(token_s, pass_s, acceptance, WINDOW.sure_tokens)
    return {
        "acceptance": acceptance,
        "draft_token_s": token_s,
        "pass_s": pass_s,
        "nodes_awaited": awaited,
        "steps_down_at": route.load.crossover.steps_down_at,
        "seeding": _seeding(route.answers.way),
    }


def _seeding(way: Way | None) -> dict[str, Any] | None:
    """Whether seeding pays, and how many times as fast as alone it should be by acceptance."""
    if not isinstance(way, SeedingWay):
        return None
    worth = way.worth
    return {"pays": worth.pays, "expected_gain": worth.expected_gain}


def _facts(route: Route) -> dict[str, Any] | None:
    facts = route.facts
    if facts is None:
        return None
    return {
        "model": facts.model,
        "build": facts.build,
        "num_slots": facts.num_slots,
        "num_context": facts.num_context,
    }


def _points(timeline: Timeline, day_s: float) -> dict[str, Any]:
    return {
        "now": day_s,
        "period_s": timeline.period_s,
        "num_periods": timeline.num_periods,
        "points": [_point(start_s, tally) for start_s, tally in timeline.points(day_s)],
    }


def _point(start_s: float, tally: Tally) -> Sequence[float | None]:
    """[start, acceptance, tokens per pass, tokens/s, tokens]"""
    return [
        start_s,
        tally.acceptance_rate,
        tally.tokens_per_pass,
        tally.tokens_per_s,
        tally.num_tokens,
    ]


def _answer(
    answer: ObservedAnswer, now_s: float, vocabulary: Vocabulary | None
) -> Mapping[str, Any]:
    shown: dict[str, Any] = {
        "number": answer.number,
        "kind": answer.kind,
        "request_id": answer.request_id,
        "age_s": round(now_s - answer.began_s, 1),
        "num_prompt": answer.num_prompt,
        "num_tokens": answer.said.num_tokens,
        "num_dropped": answer.said.num_dropped,
        "total": answer.total.as_json(),
        "spans": [],
        "prompt": "",
    }
    if vocabulary is not None:
        known = ((token, None) for token in answer.prompt)
        shown["prompt"] = "".join(text for _, text in spans(known, vocabulary))
        said = ((token, origin) for token, origin in answer.said)
        shown["spans"] = [
            [origin.value if origin else "", text] for origin, text in spans(said, vocabulary)
        ]
    return shown


def spans(
    tokens: Iterable[tuple[int, Origin | None]], vocabulary: Vocabulary
) -> list[tuple[Origin | None, str]]:
    """Texts of tokens, neighbours of one origin together.

    A character that is cut between two tokens belongs to the later one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found: list[tuple[Origin | None, str]] = []
    for token, origin in tokens:
        piece = vocabulary.piece(token) if 0 <= token < len(vocabulary) else b""
        text = decoder.decode(piece)
        if not text:
            continue
        if found and found[-1][0] is origin:
            found[-1] = (origin, found[-1][1] + text)
        else:
            found.append((origin, text))
    return found
