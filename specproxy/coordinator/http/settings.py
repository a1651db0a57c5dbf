"""`generation_settings`: the parameters of an answer, key by key and in llama-server's order.

Source: `task_params::to_json` of llama.cpp's tools/server/server-task.cpp at 0c1e570. There the
numbers are 32-bit floats, and show as such.
"""

import math
from ctypes import c_float

from specproxy.coordinator.http.parameters import Parameters
from specproxy.coordinator.http.replies import Json
from specproxy.coordinator.http.sampling import RANDOM_SEED
from specproxy.core.sampling import SamplingParams

_NOT_IN_BRIEF = frozenset(
    {
        *("dry_sequence_breakers", "stop", "logit_bias", "grammar", "grammar_lazy"),
        *("grammar_triggers", "preserved_tokens"),
    }
)
DEFAULTS = Parameters(SamplingParams(), reasoning_format="none")


def settings_json(parameters: Parameters, *, chat: bool = False) -> Json:
    """All settings of an answer."""
    sampling = parameters.sampling
    return {
        "seed": RANDOM_SEED if sampling.seed is None else sampling.seed,
        "temperature": _single(sampling.temperature),
        "dynatemp_range": _single(sampling.dynatemp_range),
        "dynatemp_exponent": _single(sampling.dynatemp_exponent),
        "top_k": sampling.top_k,
        "top_p": _single(sampling.top_p),
        "min_p": _single(sampling.min_p),
        "top_n_sigma": _single(sampling.top_n_sigma),
        "xtc_probability": _single(sampling.xtc_probability),
        "xtc_threshold": _single(sampling.xtc_threshold),
        "typical_p": _single(sampling.typical_p),
        "repeat_last_n": sampling.penalty_last_n,
        "repeat_penalty": _single(sampling.penalty_repeat),
        "presence_penalty": _single(sampling.penalty_present),
        "frequency_penalty": _single(sampling.penalty_freq),
        "dry_multiplier": _single(sampling.dry_multiplier),
        "dry_base": _single(sampling.dry_base),
        "dry_allowed_length": sampling.dry_allowed_length,
        "dry_penalty_last_n": sampling.dry_penalty_last_n,
        "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        "mirostat": sampling.mirostat,
        "mirostat_tau": _single(sampling.mirostat_tau),
        "mirostat_eta": _single(sampling.mirostat_eta),
        "adaptive_target": -1.0,
        "adaptive_decay": _single(0.9),
        "stop": list(parameters.stops),
        "max_tokens": parameters.num_predict,
        "n_predict": parameters.num_predict,
        "n_keep": 0,
        "n_discard": 0,
        "ignore_eos": sampling.ignore_eos,
        "stream": parameters.stream,
        "logit_bias": [
            {"bias": bias if math.isfinite(bias) else None, "token": token}
            for token, bias in sampling.logit_bias
        ],
        "n_probs": parameters.num_top_logprobs,
        "min_keep": sampling.min_keep,
        "grammar": sampling.grammar,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "chat_format": "peg-native" if chat else "Content-only",
        "reasoning_format": parameters.reasoning_format,
        "reasoning_in_content": False,
        "generation_prompt": "",
        "samplers": list(sampling.samplers),
        "speculative.types": "none",
        "timings_per_token": parameters.timings_per_token,
        "post_sampling_probs": False,
        "backend_sampling": False,
        "lora": [],
    }


def brief_settings_json(parameters: Parameters) -> Json:
    """Those that `/props` and `/slots` show."""
    settings = settings_json(parameters)
    return {name: value for name, value in settings.items() if name not in _NOT_IN_BRIEF}


def _single(value: float) -> float:
    return c_float(value).value
