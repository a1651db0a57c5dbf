"""The sampling fields of a request: llama-server's names, defaults and bounds.

Source: `make_llama_cmpl_schema` of llama.cpp's tools/server/server-schema.cpp at 0c1e570.
"""

from collections.abc import Iterator
from typing import Any

from specproxy.coordinator.http.fields import Fields, checked_number, wrong
from specproxy.core.sampling import DEFAULT_SAMPLERS, SamplingParams
from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import RequestError

RANDOM_SEED = 2**32 - 1
_BY_LETTER = {
    "d": "dry",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "s": "top_n_sigma",
    "m": "min_p",
    "t": "temperature",
    "x": "xtc",
    "e": "penalties",
}
_ALIASES = {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p"}
_BY_NAME = {
    **{name: name for name in DEFAULT_SAMPLERS},
    **{name.replace("_", "-"): name for name in DEFAULT_SAMPLERS},
    **{name.replace("_", ""): name for name in DEFAULT_SAMPLERS},
    **_ALIASES,
}


def read_sampling(fields: Fields, vocabulary: Vocabulary, grammar: str) -> SamplingParams:
    """The sampling parameters of a request.

    Raises:
        RequestError: a field is wrong.
    """
    plain = SamplingParams()
    number, integer = fields.number, fields.integer
    dry_base = number("dry_base", default=plain.dry_base)
    return SamplingParams(
        seed=_read_seed(fields),
        temperature=number("temperature", default=plain.temperature, low=0.0),
        dynatemp_range=number("dynatemp_range", default=plain.dynatemp_range),
        dynatemp_exponent=number("dynatemp_exponent", default=plain.dynatemp_exponent),
        top_k=integer("top_k", default=plain.top_k, low=0, moved=True),
        top_p=number("top_p", default=plain.top_p, low=0.0, high=1.0),
        min_p=number("min_p", default=plain.min_p, low=0.0, high=1.0),
        top_n_sigma=number("top_n_sigma", default=plain.top_n_sigma),
        typical_p=number("typical_p", default=plain.typical_p),
        xtc_probability=number("xtc_probability", default=plain.xtc_probability, low=0.0, high=1.0),
        xtc_threshold=number("xtc_threshold", default=plain.xtc_threshold, low=0.0, high=1.0),
        min_keep=integer("min_keep", default=plain.min_keep, low=0),
        penalty_last_n=integer("repeat_last_n", default=plain.penalty_last_n, low=0),
        penalty_repeat=number("repeat_penalty", default=plain.penalty_repeat),
        penalty_freq=number("frequency_penalty", default=plain.penalty_freq),
        penalty_present=number("presence_penalty", default=plain.penalty_present),
        dry_multiplier=number("dry_multiplier", default=plain.dry_multiplier),
        dry_base=dry_base if dry_base >= 1.0 else plain.dry_base,
        dry_allowed_length=integer("dry_allowed_length", default=plain.dry_allowed_length, low=0),
        dry_penalty_last_n=integer("dry_penalty_last_n", default=plain.dry_penalty_last_n, low=0),
        dry_sequence_breakers=_read_breakers(fields, plain.dry_sequence_breakers),
        mirostat=integer("mirostat", default=plain.mirostat, low=0, high=2, moved=True),
        mirostat_tau=number("mirostat_tau", default=plain.mirostat_tau),
        mirostat_eta=number("mirostat_eta", default=plain.mirostat_eta),
        samplers=_read_samplers(fields),
        logit_bias=tuple(_read_bias(fields.value("logit_bias"), vocabulary)),
        ignore_eos=fields.flag("ignore_eos"),
        grammar=grammar,
    )


def _read_seed(fields: Fields) -> int | None:
    """-1 and its 32-bit form ask for a random one."""
    seed = fields.integer("seed", default=-1, low=-(2**63), high=2**63) % 2**32
    return None if seed == RANDOM_SEED else seed


def _read_breakers(fields: Fields, default: tuple[str, ...]) -> tuple[str, ...]:
    value = fields.value("dry_sequence_breakers")
    if value is None:
        return default
    if not isinstance(value, list) or not value:
        raise wrong("dry_sequence_breakers", value, "a list of at least one string")
    return fields.texts("dry_sequence_breakers")


def _read_samplers(fields: Fields) -> tuple[str, ...]:
    value = fields.value("samplers")
    if value is None:
        return DEFAULT_SAMPLERS
    if isinstance(value, str):
        return tuple(_sampler(letter, _BY_LETTER) for letter in value)
    return tuple(_sampler(name.lower(), _BY_NAME) for name in fields.texts("samplers"))


def _sampler(name: str, known: dict[str, str]) -> str:
    if name not in known:
        raise RequestError(
            f"Field 'samplers': the coordinator has no sampler {name!r}.",
            remedy=f"Use some of {', '.join(known)}.",
        )
    return known[name]


def _read_bias(value: Any, vocabulary: Vocabulary) -> Iterator[tuple[int, float]]:
    """[[token or text, bias], ...] or {token or text: bias}; a bias of false forbids.

    Ids outside of the vocabulary are nobody's, and skipped as llama-server skips them.
    """
    if value is None:
        return
    if isinstance(value, dict):
        pairs = [(_as_id(key), bias) for key, bias in value.items()]
    elif isinstance(value, list):
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
            raise wrong("logit_bias", value, "a list of [token, bias] pairs")
        pairs = [(pair[0], pair[1]) for pair in value]
    else:
        raise wrong("logit_bias", value, "an object or a list of [token, bias] pairs")
    for token, bias in pairs:
        weight = float("-inf")
        if bias is not False:
            weight = float(checked_number("logit_bias", bias, "a number or false as bias"))
        if isinstance(token, str):
            yield from ((one, weight) for one in vocabulary.tokenize(token))
        elif isinstance(token, bool) or not isinstance(token, int):
            raise wrong("logit_bias", token, "a token id or a string as token")
        elif 0 <= token < len(vocabulary):
            yield token, weight


def _as_id(key: str) -> int | str:
    """A JSON object's key is a string; one that is a number is a token id."""
    try:
        return int(key) if key.isascii() and key.lstrip("+-").isdigit() else key
    except ValueError:
        return key
