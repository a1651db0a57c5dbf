"""Parameters that llama-server honours and the coordinator does not.

Invariant: none of them is ignored where it would change the answer; where it would not, it does
no harm and is let pass.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from specproxy.coordinator.http.fields import Fields
from specproxy.errors import RequestError


class _Refusal(NamedTuple):
    changes: Callable[[Any], bool]
    remedy: str


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _not_negative(value: Any) -> bool:
    return isinstance(value, int | float) and value >= 0


def _more_than_one(value: Any) -> bool:
    return isinstance(value, int | float) and value > 1


_LIMIT = "Limit the answer with max_tokens or stop."
_LLAMA_SERVER = "Leave it out, or ask a llama-server."
_REFUSALS: dict[str, _Refusal] = {
    "t_max_predict_ms": _Refusal(_positive, _LIMIT),
    "n_indent": _Refusal(_positive, _LIMIT),
    "adaptive_target": _Refusal(_not_negative, "Use another sampler."),
    "backend_sampling": _Refusal(bool, _LLAMA_SERVER),
    "lora": _Refusal(bool, "The coordinator loads no LoRA adapters; merge them into the model."),
    "reasoning_budget_tokens": _Refusal(_not_negative, _LIMIT),
    "thinking_budget_tokens": _Refusal(_not_negative, _LIMIT),
    "reasoning_control": _Refusal(bool, _LLAMA_SERVER),
    "grammar_lazy": _Refusal(bool, "Send a grammar that the whole answer follows."),
    "grammar_triggers": _Refusal(bool, "Send a grammar that the whole answer follows."),
    "echo": _Refusal(bool, "The prompt is known to you: put it before the text."),
    "suffix": _Refusal(bool, "Write the model's own infill tokens into the prompt."),
    "best_of": _Refusal(_more_than_one, "Ask for `n` answers and choose."),
}


def refuse_unsupported(fields: Fields) -> None:
    """
    Raises:
        RequestError: the request asks for what it would not get.
    """
    for name, refusal in _REFUSALS.items():
        value = fields.value(name)
        if value is not None and refusal.changes(value):
            raise RequestError(
                f"Field '{name}': the coordinator does not support it.", remedy=refusal.remedy
            )
    if fields.flag("post_sampling_probs") and fields.value("n_probs", "logprobs", "top_logprobs"):
        raise RequestError(
            "Field 'post_sampling_probs': the coordinator reports probabilities before sampling.",
            remedy="Leave it out and read the logprobs.",
        )
