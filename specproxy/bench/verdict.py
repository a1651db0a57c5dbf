"""What the figures mean, in words: does speculation pay here, and what limits it. Pure."""

from collections.abc import Sequence

from specproxy.bench.intervals import LEVEL
from specproxy.bench.report import Compared, Report, unaided
from specproxy.bench.runner import ArmResult, best_native
from specproxy.bench.stats import Summary, ratio

NOTABLE = 1.15
"""What could not make an arm this many times as fast is not called its limit."""


def verdict(report: Report) -> list[str]:
    """Sentences, the most important first."""
    said = [] if report.identical else [_different(report)]
    best = fastest(report)
    if best is None:
        return [*said, "No arm speculated, or none could be timed."]
    said.append(_does_it_pay(best, report.against_alone(best)))
    proxied = fastest(report, "specproxy")
    if proxied is not None and proxied is not best:
        said.append(f"{_how_fast(proxied, report.against_alone(proxied))}.")
    said += _beside_native(report, proxied)
    for result in (proxied, best_native(report.results)):
        if result is not None:
            said.append(f"What limits {result.arm.label}: {limit(result, report.alone)}.")
    return said + unaided(report)


def fastest(report: Report, name: str | None = None) -> ArmResult | None:
    """The fastest arm of that name that was timed; of all that speculate for None.

    Arms with a recorded draft do not count.
    """
    named = [
        one
        for one in report.results[1:]
        if name in (None, one.arm.name)
        and not one.arm.is_recorded
        and report.speedup(one) is not None
    ]
    return max(named, key=lambda one: one.tokens_per_s or 0.0, default=None)


def batching(rounds: Sequence[Report]) -> list[str]:
    """What several clients at a time make of each arm: a batch shares passes as a draft does.

    Args:
        rounds: each of the same arms; of one alone nothing can be said.
    """
    if len(rounds) < 2:
        return []
    first, *_, last = sorted(rounds, key=lambda one: one.options.num_clients)
    said = []
    for few, many in zip(first.results, last.results, strict=True):
        gain = ratio(many.tokens_per_s, few.tokens_per_s)
        if gain is not None:
            said.append(
                f"{many.arm.label}: {few.tokens_per_s or 0.0:.1f} tokens/s with"
                f" {_clients(first)}, {many.tokens_per_s or 0.0:.1f} with {_clients(last)}"
                f" ({gain:.1f} times)."
            )
    pays = [one.options.num_clients for one in rounds if _pays(one)]
    lost = [one.options.num_clients for one in rounds if not _pays(one)]
    if pays and lost:
        said.append(
            f"Speculation pays with up to {max(pays)} at a time; with {min(lost)} a batch of plain"
            " answers shares the passes as well."
            if max(pays) < min(lost)
            else f"Speculation pays with {_listed(pays)} at a time, not with {_listed(lost)}."
        )
    return said


def _pays(report: Report) -> bool:
    """Whether an arm that speculates is faster than the target alone, beyond chance where that
    is known."""
    best = fastest(report)
    if best is None:
        return False
    compared = report.against_alone(best)
    return (compared.interval.low if compared.interval else compared.times or 0.0) > 1


def _clients(report: Report) -> str:
    count = report.options.num_clients
    return "one client" if count == 1 else f"{count} clients"


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(counts)))


def limit(result: ArmResult, alone: ArmResult) -> str:
    """What this arm would gain most from, compared with the target alone.

    An arm's speed is the tokens of a pass over the time of a pass. So there are two ways up:
    passes as quick as the target's own, and drafts that are never wrong. Where neither would help
    much, only more drafted tokens would.
    """
    here, plain = result.summary, alone.summary
    if not here.num_proposed or here.pass_ms is None or not plain.pass_ms:
        return "nothing was drafted in time"
    by_passes = here.pass_ms / plain.pass_ms
    by_acceptance = (here.num_passes + here.num_proposed) / (here.num_passes + here.num_accepted)
    if max(by_passes, by_acceptance) < NOTABLE:
        return (
            f"the number of passes: each takes what the target's own takes ({here.pass_ms:.0f} ms)"
            f" and {here.acceptance_rate:.0%} of what is proposed is right, but that is"
            f" {_proposed(here):.1f} tokens a pass; only longer drafts would help"
        )
    if by_acceptance >= by_passes:
        return (
            f"acceptance: {here.acceptance_rate:.0%} of {_proposed(here):.1f} proposed tokens a"
            f" pass are right; if all were, it could be {by_acceptance:.1f} times as fast"
        )
    cause = (
        "the server's draft model, which runs before each pass, and"
        if result.arm.name == "native"
        else "a draft model and seeds that take their share of the machine, and"
    )
    return (
        f"the time of a pass: {here.pass_ms:.0f} ms, and {plain.pass_ms:.0f} ms for the target"
        f" alone; what is added is {cause} checking {_proposed(here) + 1:.0f} tokens instead of"
        f" one; without it, it could be {by_passes:.1f} times as fast"
    )


def _proposed(summary: Summary) -> float:
    """Tokens that a pass checks, besides its own."""
    return summary.num_proposed / max(1, summary.num_passes - summary.num_answers)


def _does_it_pay(best: ArmResult, compared: Compared) -> str:
    said = _how_fast(best, compared)
    interval, times = compared.interval, compared.times or 0.0
    if interval is not None and interval.low <= 1 <= interval.high:
        return f"Whether speculation pays here cannot be told from so few answers: {said}."
    if times <= 1:
        return f"Speculation does not pay here: {said}, and that is the best of them."
    return f"Speculation pays here: {said}."


def _beside_native(report: Report, proxied: ArmResult | None) -> list[str]:
    native = best_native(report.results)
    if native is None or proxied is None:
        return []
    compared = report.against_native(proxied)
    if compared.times is None:
        return []
    said = f"{proxied.arm.label} is {_times(compared)} as fast as the target with its own draft"
    said += "" if native.arm.draft_n is None else f" (n={native.arm.draft_n})"
    interval = compared.interval
    unclear = interval is not None and interval.low <= 1 <= interval.high
    return [said + (", which may be chance." if unclear else ".")]


def _how_fast(result: ArmResult, compared: Compared) -> str:
    speed = result.tokens_per_s or 0.0
    return (
        f"{result.arm.label} is {_times(compared)} as fast as the target alone"
        f" ({speed:.1f} tokens/s)"
    )


def _times(compared: Compared) -> str:
    within = (
        ""
        if compared.interval is None
        else f" ({LEVEL:.0%}: {compared.interval.low:.2f} to {compared.interval.high:.2f})"
    )
    return f"{compared.times or 0.0:.2f} times{within}"


def _different(report: Report) -> str:
    labels = ", ".join(one.arm.label for one in report.results if not one.identical)
    return (
        f"Not every answer is the target's own ({labels}): that must be mended before any speed"
        " counts."
    )
