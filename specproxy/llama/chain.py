"""libllama's samplers in the order in which llama-server runs them.

Source: `common_sampler_init` in common/sampling.cpp and `init_sampler` in tools/server, llama.cpp
as vendored by llama-cpp-python 0.3.36.
"""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from specproxy.core.sampling import DEFAULT_SAMPLERS, SamplingParams
from specproxy.errors import RequestError
from specproxy.llama.library import load

_LONGEST_HISTORY = 1 << 20
"""Tokens that a penalty looks back on at most; libllama allocates them all at once, and cannot
fail but by ending the process. More than any context holds."""
_MIROSTAT_CANDIDATES = 100
_ALIASES = {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p"}
_CANONICAL = (*DEFAULT_SAMPLERS, "infill")


Bias = tuple[int, float]
"""A token and what is added to its logit."""


def build_chain(
    params: SamplingParams, biases: Sequence[Bias], vocabulary: int | None, num_vocabulary: int
) -> Any:
    """A native sampler chain that ends in a choice. Free it with `llama_sampler_free`.

    Args:
        biases: from `logit_biases`.
        vocabulary: native handle; None: only samplers that need none.

    Raises:
        RequestError: a parameter that llama-server refuses too, or an unknown sampler.
    """
    check(params)
    api = load()
    options = api.llama_sampler_chain_default_params()
    options.no_perf = True
    chain = api.llama_sampler_chain_init(options)
    try:
        for native in _samplers(api, params, biases, vocabulary, num_vocabulary):
            api.llama_sampler_chain_add(chain, native)
    except BaseException:
        api.llama_sampler_free(chain)
        raise
    return chain


def check(params: SamplingParams) -> None:
    """Refuse what libllama would not survive, or llama-server refuses.

    Raises:
        RequestError: with the field's name.
    """
    sampler_order(params)
    repeat = params.penalty_repeat
    if not (math.isfinite(repeat) and repeat > 0 and math.isfinite(1 / repeat)):
        raise RequestError("penalty_repeat must be finite and greater than 0.")
    for name in ("penalty_freq", "penalty_present"):
        if not math.isfinite(getattr(params, name)):
            raise RequestError(f"{name} must be finite.")
    if params.mirostat not in (0, 1, 2):
        raise RequestError("mirostat must be 0, 1 or 2.", remedy="0 turns it off.")


def logit_biases(params: SamplingParams, vocabulary: int | None) -> list[Bias]:
    """The request's own, then those of `ignore_eos`, then the tokens that the model suppresses.

    Raises:
        RequestError: ignore_eos without a vocabulary.
    """
    api = load()
    biases = list(params.logit_bias)
    if params.ignore_eos:
        native = _required(vocabulary, "ignore_eos")
        tokens = range(api.llama_vocab_n_tokens(native))
        biases += ((one, -math.inf) for one in tokens if api.llama_vocab_is_eog(native, one))
    if vocabulary is not None:
        count = ctypes.c_int32()
        suppressed = api.llama_vocab_get_suppress_tokens(vocabulary, ctypes.byref(count))
        biases += ((suppressed[index], -math.inf) for index in range(count.value))
    return biases


def sampler_order(params: SamplingParams) -> list[str]:
    """Names of the chain's samplers in llama.cpp's spelling; it knows several of each.

    Raises:
        RequestError: an unknown name. (llama-server drops it and says so in its log only.)
    """
    spellings = {name.replace("_", ""): name for name in _CANONICAL} | _ALIASES
    order = []
    for name in params.samplers:
        known = spellings.get(name.lower().replace("_", "").replace("-", ""))
        if known is None:
            raise RequestError(
                f"There is no sampler {name!r} here.", remedy=f"Known: {', '.join(_CANONICAL)}."
            )
        order.append(known)
    return order


def num_remembered(params: SamplingParams) -> int:
    """Tokens before the next one that can have an influence on it, beside the logits."""
    if params.mirostat:
        return 0
    order = sampler_order(params)
    history = 0
    if "penalties" in order and _penalises(params):
        history = params.penalty_last_n
    if "dry" in order and _dries(params):
        history = max(history, params.dry_penalty_last_n)
    return min(history, _LONGEST_HISTORY)


def chooses_largest(params: SamplingParams) -> bool:
    """Whether the chain always gives the token with the largest logit, if there is only one.

    Not so among equals: there it depends on how the samplers before have sorted them. Logit biases
    are not looked at.
    """
    order = sampler_order(params)
    return (
        params.mirostat == 0
        and "temperature" in order
        and params.temperature <= 0
        and params.dynatemp_range <= 0
        and num_remembered(params) == 0
        and "infill" not in order
        and not ("typ_p" in order and params.typical_p < 1)
        and not ("xtc" in order and params.xtc_probability > 0 and params.xtc_threshold <= 0.5)
    )


def _samplers(
    api: Any,
    params: SamplingParams,
    biases: Sequence[Bias],
    vocabulary: int | None,
    num_vocabulary: int,
) -> Iterator[Any]:
    if biases:
        listed = (api.llama_logit_bias * len(biases))(*biases)
        yield api.llama_sampler_init_logit_bias(num_vocabulary, len(biases), listed)
    seed = api.LLAMA_DEFAULT_SEED if params.seed is None else params.seed & 0xFFFFFFFF
    tau, eta = params.mirostat_tau, params.mirostat_eta
    if params.mirostat:
        yield api.llama_sampler_init_temp(params.temperature)
    if params.mirostat == 1:
        yield api.llama_sampler_init_mirostat(num_vocabulary, seed, tau, eta, _MIROSTAT_CANDIDATES)
    elif params.mirostat == 2:
        yield api.llama_sampler_init_mirostat_v2(seed, tau, eta)
    else:
        makers = _makers(api, params, vocabulary, num_vocabulary, seed)
        for name in sampler_order(params):
            yield makers[name]()
        yield api.llama_sampler_init_dist(seed)


def _makers(
    api: Any, params: SamplingParams, vocabulary: int | None, num_vocabulary: int, seed: int
) -> dict[str, Callable[[], Any]]:
    min_keep = max(0, params.min_keep)
    return {
        "penalties": lambda: api.llama_sampler_init_penalties(
            num_vocabulary,
            min(params.penalty_last_n, _LONGEST_HISTORY),
            params.penalty_repeat,
            params.penalty_freq,
            params.penalty_present,
        ),
        "dry": lambda: _dry(api, params, vocabulary),
        "top_n_sigma": lambda: api.llama_sampler_init_top_n_sigma(params.top_n_sigma),
        "top_k": lambda: api.llama_sampler_init_top_k(params.top_k),
        "typ_p": lambda: api.llama_sampler_init_typical(params.typical_p, min_keep),
        "top_p": lambda: api.llama_sampler_init_top_p(params.top_p, min_keep),
        "min_p": lambda: api.llama_sampler_init_min_p(params.min_p, min_keep),
        "xtc": lambda: api.llama_sampler_init_xtc(
            params.xtc_probability, params.xtc_threshold, min_keep, seed
        ),
        "temperature": lambda: api.llama_sampler_init_temp_ext(
            params.temperature, params.dynatemp_range, params.dynatemp_exponent
        ),
        "infill": lambda: api.llama_sampler_init_infill(_required(vocabulary, "infill")),
    }


def _dry(api: Any, params: SamplingParams, vocabulary: int | None) -> Any:
    breakers = [text.encode("utf-8", "replace") for text in params.dry_sequence_breakers]
    return api.llama_sampler_init_dry(
        _required(vocabulary, "dry") if _dries(params) else None,
        params.dry_multiplier,
        params.dry_base,
        params.dry_allowed_length,
        min(params.dry_penalty_last_n, _LONGEST_HISTORY),
        (ctypes.c_char_p * len(breakers))(*breakers),
        len(breakers),
    )


def _penalises(params: SamplingParams) -> bool:
    effects = (params.penalty_repeat, params.penalty_freq, params.penalty_present)
    return params.penalty_last_n > 0 and effects != (1.0, 0.0, 0.0)


def _dries(params: SamplingParams) -> bool:
    return params.dry_multiplier != 0 and params.dry_base >= 1 and params.dry_penalty_last_n > 0


def _required(vocabulary: int | None, name: str) -> int:
    if vocabulary is None:
        raise RequestError(f"{name} needs a model's vocabulary.")
    return vocabulary
