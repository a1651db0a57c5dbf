"""What a benchmark says: a table for people, JSON for machines.

Invariant: pure, but for the facts of the machine and the date in the JSON.
"""

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

import specproxy
from specproxy.bench.judge import Verdict
from specproxy.bench.runner import ArmResult, BenchOptions, best_native
from specproxy.bench.stats import Answer, ratio, summarise
from specproxy.bench.workloads import Prompt

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A finished benchmark.

    Attributes:
        results: the target alone first.
        llama_build: version that the servers give themselves.
    """

    results: Sequence[ArmResult]
    prompts: Sequence[Prompt]
    options: BenchOptions
    rtt_ms: float
    num_workers: int
    mode: str
    llama_build: str

    @property
    def identical(self) -> bool:
        """Whether every answer of every arm is the target's own."""
        return all(result.identical for result in self.results)

    @property
    def shown(self) -> list[ArmResult]:
        """One result for each arm: of several native ones the fastest."""
        best = best_native(self.results)
        return [one for one in self.results if one.arm.name != "native" or one is best]

    def speedup(self, result: ArmResult) -> float | None:
        """Speed against the target alone."""
        return ratio(result.tokens_per_s, self.results[0].tokens_per_s)

    def against_native(self, result: ArmResult) -> float | None:
        """Speed against the best of llama-server's own draft; None where that did not run."""
        best = best_native(self.results)
        return None if best is None else ratio(result.tokens_per_s, best.tokens_per_s)


def to_json(report: Report, facts: Json | None = None) -> Json:
    """The whole report; `facts` on the machine are read when None."""
    shown = report.shown
    return {
        "link": {"rtt_ms": report.rtt_ms, "workers": report.num_workers},
        "mode": report.mode,
        "arms": [_arm(report, result) for result in shown],
        "other_arms": [_arm(report, one) for one in report.results if one not in shown],
        "identical": report.identical,
        "clients": report.options.num_clients,
        "tokens_per_answer": report.options.num_tokens,
        "tie_margin": report.options.tie_margin,
        "prompts": [{"kind": one.kind, "title": one.title} for one in report.prompts],
        "versions": {
            "specproxy": specproxy.__version__,
            "llama_server": report.llama_build,
            "llama_cpp_python": importlib.metadata.version("llama-cpp-python"),
            "python": platform.python_version(),
        },
        "machine": machine() if facts is None else facts,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _arm(report: Report, result: ArmResult) -> Json:
    summary = result.summary
    entry: Json = {
        "name": result.arm.name,
        "label": result.arm.label,
        "tokens_per_s": result.tokens_per_s,
        "speedup": report.speedup(result),
        "against_native": report.against_native(result),
        "ttft_ms": summary.ttft_ms,
        "tokens": summary.num_tokens,
        "identical": result.identical,
        "ties": result.num_ties,
        "acceptance_rate": summary.acceptance_rate,
        "tokens_per_pass": summary.tokens_per_pass,
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
            _answer(prompt, answer, verdict)
            for prompt, answer, verdict in zip(
                report.prompts, result.answers, result.verdicts, strict=True
            )
        ],
    }
    if result.arm.draft_n is not None:
        entry["draft_n"] = result.arm.draft_n
    if result.proxy_counts:
        entry["proxy"] = dict(result.proxy_counts)
    return {key: _rounded(value) for key, value in entry.items()}


def _answer(prompt: Prompt, answer: Answer, verdict: Verdict) -> Json:
    summary = summarise([answer])
    entry: Json = {
        "kind": prompt.kind,
        "tokens": answer.num_tokens,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.num_prompt,
        "prompt_tokens_read": answer.num_prompt_read,
        "tokens_per_s": summary.tokens_per_s,
        "ttft_ms": summary.ttft_ms,
        "passes": summary.num_passes,
        "proposed": answer.num_proposed,
        "accepted": answer.num_accepted,
        "identical": verdict.identical,
        "ties": [asdict(tie) for tie in verdict.ties],
    }
    if verdict.difference is not None:
        entry["difference"] = asdict(verdict.difference)
    return entry


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def table(report: Report) -> Table:
    """The report on a terminal: every arm measured."""
    title = (
        f"{len(report.prompts)} prompts, up to {report.options.num_tokens} tokens each, greedy; "
        f"{report.num_workers} workers, {report.rtt_ms:g} ms round trip each"
        + (f"; {report.options.num_clients} at a time" if report.options.num_clients > 1 else "")
    )
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("arm", no_wrap=True)
    for name in ("tok/s", "ratio", "native", "median", "TTFT ms", "tokens", "passes", "accepted"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name in ("tok/pass", "identical", "warm-up s"):
        shown.add_column(name, justify="right", no_wrap=True)
    for result in report.results:
        summary = result.summary
        shown.add_row(
            result.arm.label,
            _number(result.tokens_per_s, ".1f"),
            _number(report.speedup(result), ".2f"),
            _number(report.against_native(result), ".2f"),
            _number(summary.tokens_per_s_median, ".1f"),
            _number(summary.ttft_ms, ".0f"),
            str(summary.num_tokens),
            str(summary.num_passes),
            _number(summary.acceptance_rate, ".0%"),
            _number(summary.tokens_per_pass, ".2f"),
            _equality(result),
            _number(result.warm_up.seconds + result.warm_up.ready_s, ".0f"),
            style="bold" if result.arm.name == "specproxy" else "",
        )
    return shown


def differences(report: Report) -> list[str]:
    """A line for each tie and each difference."""
    lines = []
    for result in report.results:
        for prompt, verdict in zip(report.prompts, result.verdicts, strict=True):
            found = [("tie", tie) for tie in verdict.ties]
            if verdict.difference is not None:
                found.append(("DIFFERENCE", verdict.difference))
            for what, one in found:
                gap = "not among the likely ones" if one.gap is None else f"gap {one.gap:.4f}"
                lines.append(
                    f"{what} in {result.arm.label}, {prompt.kind}, token {one.position}: "
                    f"{one.expected!r} in the target, {one.said!r} here ({gap})"
                )
    return lines


def _equality(result: ArmResult) -> str:
    count = result.num_ties
    ties = f" ({count} {'tie' if count == 1 else 'ties'})" if count else ""
    return ("yes" if result.identical else "NO") + ties


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def machine() -> Json:
    """What the figures were measured on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_1m": load and round(load, 2),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
