"""What `/metrics` counts, in llama-server's names and, where it has none, in our own."""

from collections.abc import Iterator
from dataclasses import dataclass

from specproxy.coordinator.generation import Engine, Step
from specproxy.coordinator.http.timings import Timings


@dataclass(eq=False)
class Counts:
    """Totals of the process."""

    num_running: int = 0
    num_prompt: int = 0
    num_cached: int = 0
    prompt_s: float = 0.0
    num_predicted: int = 0
    predicted_s: float = 0.0
    num_longest: int = 0
    num_verified: int = 0
    num_accepted: int = 0
    num_drafted_passes: int = 0

    def read(self, timings: Timings) -> None:
        """A prompt has been read."""
        self.num_prompt += timings.num_prompt - timings.num_cached
        self.num_cached += timings.num_cached
        self.prompt_s += timings.prompt_ms / 1e3

    def passed(self, step: Step, num_kept: int) -> None:
        """A pass has emitted tokens of an answer, which kept some of them."""
        self.num_predicted += num_kept
        self.num_verified += step.num_verified
        self.num_accepted += step.num_accepted
        self.num_drafted_passes += step.num_verified > 0

    def finished(self, timings: Timings) -> None:
        """An answer is complete."""
        self.predicted_s += timings.predicted_ms / 1e3
        self.num_longest = max(self.num_longest, timings.num_prompt + timings.num_predicted)

    def render(self, engine: Engine) -> str:
        """The text exposition format."""
        num_busy = sum(state.busy for state in engine.states())
        counters: list[tuple[str, str, float]] = [
            (
                "llamacpp:prompt_tokens_total",
                "Prompt tokens read, cached ones not",
                self.num_prompt,
            ),
            ("llamacpp:prompt_tokens_cached_total", "Prompt tokens reused", self.num_cached),
            ("llamacpp:prompt_seconds_total", "Time spent reading prompts", self.prompt_s),
            ("llamacpp:tokens_predicted_total", "Tokens generated", self.num_predicted),
            ("llamacpp:tokens_predicted_seconds_total", "Time spent on them", self.predicted_s),
            ("llamacpp:n_tokens_max", "Largest sequence length", self.num_longest),
            (
                "llamacpp:spec_decode_num_draft_tokens_total",
                "Drafted tokens verified",
                self.num_verified,
            ),
            (
                "llamacpp:spec_decode_num_accepted_tokens_total",
                "Drafted tokens accepted",
                self.num_accepted,
            ),
            (
                "llamacpp:spec_decode_num_drafts_total",
                "Passes that verified drafts",
                self.num_drafted_passes,
            ),
            ("llamacpp:n_decode_total", "Passes", engine.num_passes),
            ("specproxy:pass_rows_total", "Rows of all passes", engine.num_rows),
        ]
        gauges: list[tuple[str, str, float]] = [
            ("llamacpp:requests_processing", "Answers in work", num_busy),
            (
                "llamacpp:requests_deferred",
                "Answers that wait for a place",
                max(0, self.num_running - num_busy),
            ),
        ]
        lines = [*_lines("counter", counters), *_lines("gauge", gauges)]
        return "\n".join(lines) + "\n"


def _lines(kind: str, metrics: list[tuple[str, str, float]]) -> Iterator[str]:
    for name, text, value in metrics:
        yield from (f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {value:g}")
