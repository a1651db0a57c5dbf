"""Counts and times of one answer: llama-server's `timings` and `usage`."""

from dataclasses import dataclass, replace

from specproxy.coordinator.generation import Step
from specproxy.coordinator.http.replies import Json

_LEAST_MS = 0.001


@dataclass(frozen=True, slots=True)
class Timings:
    """So far; `predicted_ms` counts from the first token, which the prompt's last pass gave."""

    num_prompt: int = 0
    num_cached: int = 0
    prompt_ms: float = 0.0
    num_predicted: int = 0
    predicted_ms: float = 0.0
    num_verified: int = 0
    num_accepted: int = 0

    def after(self, step: Step) -> "Timings":
        """With a pass more; its tokens are counted one by one."""
        is_first = self.num_predicted == 0
        lasted_ms = 0.0 if is_first else 1e3 * (step.duration_s + step.waited_s)
        return replace(
            self,
            predicted_ms=max(_LEAST_MS, self.predicted_ms + lasted_ms),
            num_verified=self.num_verified + step.num_verified,
            num_accepted=self.num_accepted + step.num_accepted,
        )

    def with_token(self) -> "Timings":
        return replace(self, num_predicted=self.num_predicted + 1)

    def json(self) -> Json:
        num_read = self.num_prompt - self.num_cached
        num_steps = max(0, self.num_predicted - 1)
        result: Json = {
            "cache_n": self.num_cached,
            "prompt_n": num_read,
            "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": _ratio(self.prompt_ms, num_read),
            "prompt_per_second": _ratio(1e3 * num_read, self.prompt_ms),
            "predicted_n": self.num_predicted,
            "predicted_ms": self.predicted_ms,
            "predicted_per_token_ms": _ratio(self.predicted_ms, num_steps),
            "predicted_per_second": _ratio(1e3 * num_steps, self.predicted_ms),
        }
        if self.num_verified:
            result |= {"draft_n": self.num_verified, "draft_n_accepted": self.num_accepted}
        return result

    def usage(self) -> Json:
        return {
            "completion_tokens": self.num_predicted,
            "prompt_tokens": self.num_prompt,
            "total_tokens": self.num_predicted + self.num_prompt,
            "prompt_tokens_details": {"cached_tokens": self.num_cached},
        }


def _ratio(number: float, count: float) -> float:
    return number / count if count else 0.0
