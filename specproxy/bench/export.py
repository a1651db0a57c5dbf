"""Reports as JSON, for machines. Pure, but for the facts of the machine and the date."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from specproxy.bench.intervals import LEVEL, NUM_DRAWS, SEED, Interval
from specproxy.bench.judge import Verdict
from specproxy.bench.machine import Json, machine, versions
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult, by_category
from specproxy.bench.stats import Answer, summarise
from specproxy.bench.verdict import verdict
from specproxy.bench.workloads import Prompt


def to_json(report: Report, facts: Json | None = None) -> Json:
    """The whole report; `facts` on the machine are read when None."""
    shown = report.shown
    return {
        "link": {
            "rtt_ms": report.rtt_ms,
            "workers": report.num_workers,
            "front_rtt_ms": report.front_rtt_ms,
        },
        "draft": report.draft,
        "mode": report.mode,
        "arms": [_arm(report, result) for result in shown],
        "other_arms": [_arm(report, one) for one in report.results if one not in shown],
        "verdict": verdict(report),
        **conditions(report, facts),
    }


def conditions(report: Report, facts: Json | None = None) -> Json:
    """What was asked how, on what, and whether the answers were the target's own."""
    return {
        "identical": report.identical,
        "clients": report.options.num_clients,
        "compared_by": "throughput" if report.options.by_throughput else "decoding",
        "paired": report.options.paired,
        "tokens_per_answer": report.options.num_tokens,
        "tie_margin": report.options.tie_margin,
        "intervals": {"level": LEVEL, "draws": NUM_DRAWS, "seed": SEED, "drawn": "prompts"},
        "prompts": [
            {"kind": one.kind, "category": one.category, "title": one.title}
            for one in report.prompts
        ],
        "versions": versions(report.llama_build),
        "machine": machine() if facts is None else facts,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def speeds(report: Report, result: ArmResult) -> Json:
    """What an arm is judged by."""
    summary = result.summary
    alone, native = report.against_alone(result), report.against_native(result)
    return _rounded_all(
        {
            "name": result.arm.name,
            "label": result.arm.label,
            "tokens_per_s": result.tokens_per_s,
            "tokens_per_s_interval": _interval(report.speed_interval(result)),
            "speedup": alone.times,
            "speedup_interval": _interval(alone.interval),
            "against_native": native.times,
            "against_native_interval": _interval(native.interval),
            "ttft_ms": summary.ttft_ms,
            "tokens": summary.num_tokens,
            "identical": result.identical,
            "ties": result.num_ties,
            "acceptance_rate": summary.acceptance_rate,
            "tokens_per_pass": summary.tokens_per_pass,
            "mean_accepted_length": summary.mean_accepted_length,
            "pass_ms": summary.pass_ms,
        }
    )


def _arm(report: Report, result: ArmResult) -> Json:
    summary = result.summary
    entry: Json = {
        "tokens_per_s_median": summary.tokens_per_s_median,
        "tokens_per_s_whole": summary.tokens_per_s_whole,
        "tokens_per_s_server": summary.tokens_per_s_server,
        "ttft_ms_max": summary.ttft_ms_max,
        "passes": summary.num_passes,
        "proposed": summary.num_proposed,
        "accepted": summary.num_accepted,
        "seconds": summary.seconds,
        "warm_up": asdict(result.warm_up),
        "answers": [
            _answer(prompt, answer, judged)
            for prompt, answer, judged in zip(
                result.prompts, result.answers, result.verdicts, strict=True
            )
        ],
    }
    if result.cold is not None:
        entry["cold"] = _cold(result.cold)
    entry["categories"] = {
        category: summarise(answers).tokens_per_s
        for category, answers in by_category(result).items()
    }
    if result.arm.draft_n is not None:
        entry["draft_n"] = result.arm.draft_n
    if result.arm.kind is not None:
        entry["kind"] = asdict(result.arm.kind)
    if result.tally is not None:
        entry["tally"] = asdict(result.tally)
    if result.proxy_counts:
        entry["proxy"] = dict(result.proxy_counts)
    return {**speeds(report, result), **_rounded_all(entry)}


def _answer(prompt: Prompt, answer: Answer, judged: Verdict) -> Json:
    summary = summarise([answer])
    entry: Json = {
        "kind": prompt.kind,
        "category": prompt.category,
        "tokens": answer.num_tokens,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.num_prompt,
        "prompt_tokens_read": answer.num_prompt_read,
        "tokens_per_s": summary.tokens_per_s,
        "ttft_ms": summary.ttft_ms,
        "passes": summary.num_passes,
        "proposed": answer.num_proposed,
        "accepted": answer.num_accepted,
        "identical": judged.identical,
        "ties": [asdict(tie) for tie in judged.ties],
    }
    if judged.difference is not None:
        entry["difference"] = asdict(judged.difference)
    return entry


def _cold(answer: Answer) -> Json:
    """The first answer after a start."""
    return {
        "ttft_ms": 1e3 * answer.ttft_s,
        "tokens_per_s": summarise([answer]).tokens_per_s,
        "tokens": answer.num_tokens,
    }


def _interval(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _rounded_all(entry: Json) -> Json:
    """The same with four digits after each point: no clock is better than that."""
    return {key: _rounded(value) for key, value in entry.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
