"""What a generation request asks for beside its prompt.

Unknown keys are ignored, as llama-server ignores them. Invariant: what is read here is honoured,
or it is refused.
"""

from dataclasses import dataclass, replace
from typing import Literal

from specproxy.coordinator.generation import GenerationRequest
from specproxy.coordinator.http.fields import Fields
from specproxy.coordinator.http.sampling import read_sampling
from specproxy.coordinator.http.unsupported import refuse_unsupported
from specproxy.core.sampling import SamplingParams
from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import RequestError

ReasoningFormat = Literal["none", "auto", "deepseek"]
PING_INTERVAL_S = 30


@dataclass(frozen=True, slots=True)
class Parameters:
    """The fields that hold for all choices of a request.

    Attributes:
        num_predict: -1: as many as fit. 0 counts as 1, as llama-server has it.
        num_top_logprobs: 0: no logprobs.
        response_fields: of a native answer, these alone; empty: all.
        ping_interval_s: between comments in a silent stream; -1: none.
    """

    sampling: SamplingParams
    num_predict: int = -1
    num_top_logprobs: int = 0
    stops: tuple[str, ...] = ()
    num_choices: int = 1
    stream: bool = False
    include_usage: bool = False
    cache_prompt: bool = True
    return_tokens: bool = False
    timings_per_token: bool = False
    verbose: bool = False
    id_slot: int = -1
    ping_interval_s: int = PING_INTERVAL_S
    response_fields: tuple[str, ...] = ()
    reasoning_format: ReasoningFormat = "deepseek"

    def request(self, prompt: tuple[int, ...], choice: int) -> GenerationRequest:
        """The generation of one choice: each has its seed, unless that is random anyway."""
        sampling = self.sampling
        if sampling.seed is not None:
            sampling = replace(sampling, seed=(sampling.seed + choice) % 2**32)
        return GenerationRequest(
            prompt=prompt,
            sampling=sampling,
            max_tokens=None if self.num_predict < 0 else max(1, self.num_predict),
            num_top_logprobs=self.num_top_logprobs or None,
            cache_prompt=self.cache_prompt,
        )


def read_parameters(
    fields: Fields,
    vocabulary: Vocabulary,
    *,
    grammar: str,
    max_choices: int,
    num_top_logprobs: int | None = None,
) -> Parameters:
    """The parameters of a request.

    Args:
        grammar: what the answer must follow; empty: nothing.
        num_top_logprobs: where another field than `n_probs` and `logprobs` tells.

    Raises:
        RequestError: a field is wrong, or not supported.
    """
    refuse_unsupported(fields)
    options = fields.value("stream_options")
    if num_top_logprobs is None:
        num_top_logprobs = _read_num_probs(fields)
    return Parameters(
        sampling=read_sampling(fields, vocabulary, grammar),
        num_predict=fields.integer(
            "n_predict", "max_completion_tokens", "max_tokens", default=-1, low=-1
        ),
        num_top_logprobs=min(max(0, num_top_logprobs), len(vocabulary)),
        stops=tuple(word for word in fields.texts("stop") if word),
        num_choices=fields.integer("n_cmpl", "n", default=1, low=1, high=max_choices),
        stream=fields.flag("stream"),
        include_usage=Fields(options if isinstance(options, dict) else {}).flag("include_usage"),
        cache_prompt=fields.flag("cache_prompt", True),
        return_tokens=fields.flag("return_tokens"),
        timings_per_token=fields.flag("timings_per_token"),
        verbose=fields.flag("verbose"),
        id_slot=fields.integer("id_slot", default=-1, low=-1),
        ping_interval_s=fields.integer("sse_ping_interval", default=PING_INTERVAL_S, low=-1),
        response_fields=fields.texts("response_fields"),
        reasoning_format=_read_reasoning_format(fields),
    )


def _read_num_probs(fields: Fields) -> int:
    """`n_probs`, or OpenAI's `logprobs` of text completions; true there counts as 1."""
    if fields.value("n_probs") is None and isinstance(fields.value("logprobs"), bool):
        return int(fields.flag("logprobs"))
    return fields.integer("n_probs", "logprobs", default=0, low=-(2**31))


def _read_reasoning_format(fields: Fields) -> ReasoningFormat:
    name = fields.text("reasoning_format", "deepseek")
    known: dict[str, ReasoningFormat] = {"none": "none", "auto": "auto", "deepseek": "deepseek"}
    if name in known:
        return known[name]
    raise RequestError(
        f"Field 'reasoning_format': the coordinator does not know {name!r}.",
        remedy="Use none, auto or deepseek.",
    )
