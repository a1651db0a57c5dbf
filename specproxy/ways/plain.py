"""Which requests fan-out can carry: those whose every token depends on the tokens before it alone.

llama-server reads the whole context into a fresh sampler for each request, so penalties and DRY see
what they would have seen in one answer. What a sampler keeps beside that is lost between rounds:
the random numbers of a seed, mirostat's surprise, a grammar's place. Such requests pass through,
and so does everything that is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specproxy.admission import has_media, single_prompt

Kind = Literal["chat", "completions", "native"]
RANDOM_SEED = 2**32 - 1
_KINDS: dict[str, Kind] = {"chat": "chat", "completions": "completions", "native": "native"}

FORWARDED = frozenset(
    {
        *("temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p"),
        *("top_n_sigma", "typical_p", "xtc_probability", "xtc_threshold", "min_keep"),
        *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
        *("dry_sequence_breakers", "samplers", "logit_bias", "ignore_eos", "seed", "mirostat"),
    }
)
"""How the target samples a token."""
_ANSWERED = frozenset(
    {
        *("prompt", "messages", "model", "stream", "stream_options", "stop", "user", "metadata"),
        *("max_tokens", "max_completion_tokens", "n_predict", "return_tokens", "store"),
        *("timings_per_token", "cache_prompt", "sse_ping_interval"),
    }
)
"""What the proxy itself answers, or what changes nothing."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "n_cmpl": (1,),
    "best_of": (1,),
    "n_probs": (0,),
    "logprobs": (False, 0),
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "response_fields": ([],),
    "echo": (False,),
    "lora": ([],),
    "grammar": ("",),
    "cache_prompt": (True, False),
}
"""Values that say what holds anyway."""
_CHAT_ONLY = frozenset({"chat_template_kwargs", "reasoning_format", "reasoning_effort"})


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A request that fan-out can carry.

    Attributes:
        sampling: what is forwarded with each round.
        max_tokens: of the answer; None: no limit.
    """

    kind: Kind
    body: Mapping[str, Any]
    sampling: Mapping[str, Any]
    max_tokens: int | None


def read_plain(
    kind: str, body: Mapping[str, Any], defaults: Mapping[str, Any]
) -> PlainRequest | None:
    """
    Args:
        defaults: the server's own parameters, as `/props` tells them; `n_predict`, its limit for
            requests without one, is measured, and missing where that failed.

    Returns:
        None: leave it to the target.
    """
    carried = _KINDS.get(kind)
    if carried is None:
        return None
    known = FORWARDED | _ANSWERED | (_CHAT_ONLY if kind == "chat" else frozenset())
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        if name not in known and value not in _NEUTRAL.get(name, ()):
            return None
    if _is_left(given) if kind == "chat" else single_prompt(given.get("prompt")) is None:
        return None
    sampling = {name: value for name, value in given.items() if name in FORWARDED}
    if not _is_stateless({**defaults, **sampling}):
        return None
    limit = _limit(given, defaults)
    if limit is None:
        return None
    return PlainRequest(carried, given, sampling, limit if limit >= 0 else None)


def _is_left(given: Mapping[str, Any]) -> bool:
    """Some message is more than text, or the last one is the answer's beginning."""
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or has_media(messages):
        return True
    return not isinstance(messages[-1], dict) or messages[-1].get("role") == "assistant"


def _is_stateless(parameters: Mapping[str, Any]) -> bool:
    """Whether a token's choice hangs on the tokens before it alone, and on chance."""
    try:
        if int(parameters.get("mirostat", 0)) or float(parameters.get("adaptive_target", -1)) >= 0:
            return False
        is_seeded = int(parameters.get("seed", RANDOM_SEED)) % 2**32 != RANDOM_SEED
        return not is_seeded or _is_greedy(parameters)
    except (TypeError, ValueError):
        return False  # the target says what is wrong


def _is_greedy(parameters: Mapping[str, Any]) -> bool:
    """Nothing is drawn, so a seed means nothing."""
    samplers = parameters.get("samplers")
    has_temperature = not isinstance(samplers, list) or "temperature" in samplers
    return (
        float(parameters.get("temperature", 0.8)) <= 0
        and float(parameters.get("dynatemp_range", 0)) <= 0
        and float(parameters.get("xtc_probability", 0)) <= 0
        and has_temperature
        and not isinstance(samplers, str)
    )


def _limit(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> int | None:
    """Tokens of the answer at most, -1 for any number; None for what the target must judge."""
    names = ("n_predict", "max_completion_tokens", "max_tokens")
    asked = next((given[name] for name in names if name in given), None)
    own = defaults.get("n_predict")
    if asked == -1 and own != -1:
        return None  # the server's limit holds, but is not shown
    limit = own if asked is None else asked
    if type(limit) is not int or limit < -1:
        return None
    return max(1, limit) if limit >= 0 else -1
