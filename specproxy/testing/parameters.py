"""What a completion request asks for: its JSON body, checked as llama-server checks it.

Unknown fields are ignored, as there. Invariant: pure; every refusal is a `BadRequest`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specproxy.testing.chat import BadRequest
from specproxy.testing.language import SamplingParams
from specproxy.testing.vocabulary import ToyVocabulary

RANDOM_SEED = 4294967295
ONE_TEXT = re.compile(r'root ::= ("(?:[^"\\]|\\.)*")')
"""The only kind of grammar that this server heeds: one that leaves nothing else to say."""
NLOHMANN = {str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}


@dataclass(frozen=True)
class CompletionParams:
    """The fields of a request that this server heeds, with llama-server's defaults.

    Attributes:
        thinks: a chat's reasoning is told from its content.
        own_limit: the server's `-n`, for requests without a limit.
    """

    num_predict: int = -1
    stream: bool = False
    include_usage: bool = False
    cache_prompt: bool = True
    return_tokens: bool = False
    timings_per_token: bool = False
    verbose: bool = False
    num_probs: int = 0
    stop: tuple[str, ...] = ()
    num_choices: int = 1
    id_slot: int = -1
    tools: bool = False
    thinks: bool = False
    grammar: str = ""
    own_limit: int = -1
    sampling: SamplingParams = field(default_factory=SamplingParams)

    @property
    def limit(self) -> int:
        """Tokens at most; -1: no limit."""
        return self.own_limit if self.num_predict == -1 else self.num_predict

    @property
    def only_text(self) -> str | None:
        """What alone the grammar lets be said."""
        found = ONE_TEXT.fullmatch(self.grammar)
        return None if found is None else str(json.loads(found[1]))


def read_params(
    body: Mapping[str, Any],
    *,
    num_slots: int,
    chat: bool = False,
    thinks: bool = False,
    own_limit: int = -1,
) -> CompletionParams:
    """Raises BadRequest with the message llama-server gives."""
    stop = body.get("stop", [])
    if isinstance(stop, str):
        stop = [stop]
    if not isinstance(stop, list | None):
        raise _type_error("stop", "array", stop)
    options = body.get("stream_options") or {}
    num_probs = _number(body, "n_probs", "logprobs", default=0)
    if chat:
        num_probs = int(body.get("top_logprobs", 20)) if body.get("logprobs") else 0
    return CompletionParams(
        num_predict=int(
            _number(body, "n_predict", "max_tokens", "max_completion_tokens", default=own_limit)
        ),
        stream=_flag(body, "stream", False),
        include_usage=_flag(options, "include_usage", False),
        cache_prompt=_flag(body, "cache_prompt", True),
        return_tokens=_flag(body, "return_tokens", False),
        timings_per_token=_flag(body, "timings_per_token", False),
        verbose=_flag(body, "verbose", False),
        num_probs=int(num_probs),
        stop=tuple(str(word) for word in stop or ()),
        num_choices=_num_choices(body, num_slots),
        id_slot=int(_number(body, "id_slot", default=-1)),
        tools=bool(body.get("tools")) and chat,
        thinks=chat and thinks and body.get("reasoning_format") != "none",
        grammar=str(body.get("grammar") or ""),
        own_limit=own_limit,
        sampling=SamplingParams(
            temperature=max(0.0, _number(body, "temperature", default=0.8)),
            seed=int(_number(body, "seed", default=RANDOM_SEED)) % 2**32,
            top_k=int(_number(body, "top_k", default=40)),
            top_p=_number(body, "top_p", default=0.95),
            min_p=_number(body, "min_p", default=0.05),
            ignore_eos=_flag(body, "ignore_eos", False),
        ),
    )


def read_prompts(body: Mapping[str, Any], vocabulary: ToyVocabulary) -> list[list[int]]:
    """The prompts of a completion request: text, token ids, a mix, or an array of those."""
    if "prompt" not in body:
        raise BadRequest("[json.exception.out_of_range.403] key 'prompt' not found")
    prompt = body["prompt"]
    if prompt == []:
        raise BadRequest('"prompt" must not be empty')
    if isinstance(prompt, list) and not _is_mixed(prompt):
        return [_one_prompt(one, vocabulary) for one in prompt]
    return [_one_prompt(prompt, vocabulary)]


def tokenize_mixed(
    content: object, vocabulary: ToyVocabulary, *, add_special: bool, parse_special: bool
) -> list[int]:
    """Token ids of a string, or of an array of strings and ids."""
    parts = content if isinstance(content, list) else [content]
    tokens: list[int] = []
    for i, part in enumerate(parts):
        if isinstance(part, int):
            tokens.append(part)
        elif isinstance(part, str):
            special = add_special and i == 0
            tokens += vocabulary.tokenize(part, add_special=special, parse_special=parse_special)
        else:
            raise BadRequest('"prompt" elements must be a string, a list of tokens or a list')
    return tokens


def _is_mixed(prompt: Sequence[object]) -> bool:
    return any(isinstance(part, int) for part in prompt) and not any(
        isinstance(part, list) for part in prompt
    )


def _one_prompt(prompt: object, vocabulary: ToyVocabulary) -> list[int]:
    tokens = tokenize_mixed(prompt, vocabulary, add_special=True, parse_special=True)
    if any(not 0 <= token < len(vocabulary) for token in tokens):
        raise BadRequest("Prompt contains invalid tokens")
    return tokens


def _num_choices(body: Mapping[str, Any], num_slots: int) -> int:
    name = "n" if body.get("n_cmpl") is None else "n_cmpl"
    asked = int(_number(body, name, default=1))
    if not 1 <= asked <= num_slots:
        raise BadRequest(
            f"Field '{name}': Value must be between 1 <= value <= {num_slots}, but got {asked}"
        )
    return asked


def _number(body: Mapping[str, Any], *names: str, default: float) -> float:
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) and name == "logprobs":
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _type_error(name, "number", value)
        return value
    return default


def _flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _type_error(name, "boolean", value)
    return value


def _type_error(name: str, wanted: str, value: object) -> BadRequest:
    found = NLOHMANN.get(type(value), "number")
    return BadRequest(
        f"Field '{name}': [json.exception.type_error.302] type must be {wanted}, but is {found}"
    )
