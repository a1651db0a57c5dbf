"""How a token is chosen: llama-server's sampling parameters, in its order, with its defaults.

Source: `common_params_sampling` of llama.cpp (common/common.h), as vendored by the bindings.
"""

from dataclasses import dataclass

DEFAULT_SAMPLERS = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Everything that a token's choice depends on, beside the logits.

    Attributes:
        seed: of the random numbers; None: one is drawn.
        samplers: the chain's order; those left out do nothing.
        logit_bias: (token, bias) pairs; -inf forbids a token.
        ignore_eos: no end-of-generation token is ever chosen.
        grammar: GBNF that the answer must follow; empty: none.
    """

    seed: int | None = None
    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    top_n_sigma: float = -1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    min_keep: int = 0
    penalty_last_n: int = 64
    penalty_repeat: float = 1.0
    penalty_freq: float = 0.0
    penalty_present: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    grammar: str = ""
