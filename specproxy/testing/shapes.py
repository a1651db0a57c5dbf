"""The JSON of llama-server's answers, key by key and in its order.

Compared with a real llama-server (sdist llama-cpp-python 0.3.36). Invariant: pure; texts are
bytes inside and become strings here, broken UTF-8 as U+FFFD like `safe_json_to_str`.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specproxy.testing.parameters import RANDOM_SEED, CompletionParams
from specproxy.testing.slot import Failed, Final, Partial, Stats, Task, TokenProbs
from specproxy.testing.vocabulary import ToyVocabulary

Json = dict[str, Any]
FINGERPRINT = "b1-scripted"
LOWEST = -3.4028234663852886e38
# In the original's order; None is filled in per request.
FIXED_SETTINGS: Json = {
    "seed": None,
    "temperature": None,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "top_k": None,
    "top_p": None,
    "min_p": None,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "typical_p": 1.0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 64,
    "dry_sequence_breakers": ["\n", ":", '"', "*"],
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "stop": None,
    "max_tokens": None,
    "n_predict": None,
    "n_keep": 0,
    "n_discard": 0,
    "ignore_eos": None,
    "stream": None,
    "logit_bias": [],
    "n_probs": None,
    "min_keep": 0,
    "grammar": None,
    "grammar_lazy": False,
    "grammar_triggers": [],
    "preserved_tokens": [],
    "chat_format": "Content-only",
    "reasoning_format": None,
    "reasoning_in_content": False,
    "generation_prompt": "",
    "samplers": ["top_k", "top_p", "min_p", "temperature"],
    "speculative.types": None,
    "timings_per_token": None,
    "post_sampling_probs": False,
    "backend_sampling": False,
    "lora": [],
}
FULL_ONLY = frozenset(
    {
        *("dry_sequence_breakers", "stop", "logit_bias", "grammar", "grammar_lazy"),
        *("grammar_triggers", "preserved_tokens"),
    }
)


@dataclass(frozen=True)
class Reply:
    """What the JSON of one HTTP answer needs beside the results."""

    vocabulary: ToyVocabulary
    model: str
    id: str
    speculative: bool


def dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + dumps(value) + b"\n\n"


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def error(message: str, kind: str, status: int, **more: object) -> Json:
    return {"error": {"code": status, "message": message, "type": kind, **more}}


def refusal(failed: Failed) -> Json:
    return error(
        failed.message,
        failed.type,
        failed.status,
        n_prompt_tokens=failed.num_prompt_tokens,
        n_ctx=failed.n_ctx,
    )


def timings(stats: Stats) -> Json:
    num_gaps = max(0, stats.num_predicted - 1)
    result = {
        "cache_n": stats.num_cached,
        "prompt_n": stats.num_prompt,
        "prompt_ms": stats.prompt_ms,
        "prompt_per_token_ms": _ratio(stats.prompt_ms, stats.num_prompt),
        "prompt_per_second": _ratio(1e3 * stats.num_prompt, stats.prompt_ms),
        "predicted_n": stats.num_predicted,
        "predicted_ms": stats.predicted_ms,
        "predicted_per_token_ms": _ratio(stats.predicted_ms, num_gaps),
        "predicted_per_second": _ratio(1e3 * num_gaps, stats.predicted_ms),
    }
    if stats.num_drafted > 0:
        result |= {"draft_n": stats.num_drafted, "draft_n_accepted": stats.num_accepted}
    return result


def usage(task: Task, stats: Stats) -> Json:
    return {
        "completion_tokens": stats.num_predicted,
        "prompt_tokens": len(task.prompt),
        "total_tokens": stats.num_predicted + len(task.prompt),
        "prompt_tokens_details": {"cached_tokens": stats.num_cached},
    }


def logprobs(probs: Sequence[TokenProbs], vocabulary: ToyVocabulary) -> list[Json]:
    return [
        {
            "id": one.token,
            "token": text_of(one.text),
            "bytes": list(one.text),
            "logprob": _log(one.probability),
            "top_logprobs": [
                {
                    "id": token,
                    "token": text_of(vocabulary.piece(token)),
                    "bytes": list(vocabulary.piece(token)),
                    "logprob": _log(probability),
                }
                for token, probability in one.top
            ],
        }
        for one in probs
    ]


def settings(params: CompletionParams | None, *, speculative: bool, full: bool) -> Json:
    """`generation_settings`; `full` adds what `/props` and `/slots` leave out."""
    given = params or CompletionParams()
    sampling = given.sampling
    result = FIXED_SETTINGS | {
        "seed": sampling.seed if params else RANDOM_SEED,
        "temperature": sampling.temperature if params else 0.8,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "stop": list(given.stop),
        "max_tokens": given.num_predict,
        "n_predict": given.num_predict,
        "ignore_eos": sampling.ignore_eos,
        "stream": given.stream,
        "grammar": given.grammar,
        "n_probs": given.num_probs,
        "reasoning_format": "deepseek" if params else "none",
        "speculative.types": "none,ngram-mod" if speculative and params else "none",
        "timings_per_token": given.timings_per_token,
    }
    return {name: result[name] for name in result if full or name not in FULL_ONLY}


def native_partial(reply: Reply, task: Task, partial: Partial) -> Json:
    result: Json = {
        "index": task.index,
        "content": text_of(partial.text),
        "tokens": [partial.token],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": partial.num_predicted,
        "tokens_evaluated": len(task.prompt),
    }
    if partial.stats:
        result["timings"] = timings(partial.stats)
    if partial.probs:
        result["completion_probabilities"] = logprobs([partial.probs], reply.vocabulary)
    return result


def native_final(reply: Reply, task: Task, final: Final) -> Json:
    prompt = b"".join(reply.vocabulary.rendered(token) for token in task.prompt)
    result: Json = {
        "index": task.index,
        "content": text_of(final.text),
        "tokens": list(final.tokens),
        "id_slot": final.slot,
        "stop": True,
        "model": reply.model,
        "tokens_predicted": final.stats.num_predicted,
        "tokens_evaluated": len(task.prompt),
        "generation_settings": settings(task.params, speculative=reply.speculative, full=True),
        "prompt": text_of(prompt),
        "has_new_line": final.has_new_line,
        "truncated": final.truncated,
        "stop_type": final.stop_type,
        "stopping_word": final.stopping_word,
        "tokens_cached": final.num_tokens_cached,
        "timings": timings(final.stats),
    }
    if not task.params.stream and final.probs:
        result["completion_probabilities"] = logprobs(final.probs, reply.vocabulary)
    return result


def native(reply: Reply, task: Task, result: Partial | Final) -> Json:
    """The server's own shape of a result; `verbose` asks for it beside the OpenAI shape."""
    if isinstance(result, Final):
        return native_final(reply, task, result)
    return native_partial(reply, task, result)


def text_chunk(reply: Reply, task: Task, result: Partial | Final) -> Json:
    """One `/v1/completions` object; the final one carries the finish reason and usage."""
    probs = result.probs if isinstance(result, Final) else (result.probs,)
    hidden = isinstance(result, Final) and task.params.stream
    shown = [one for one in probs if one is not None and not hidden]
    chunk: Json = {
        "choices": [
            {
                "text": text_of(result.text),
                "index": task.index,
                "logprobs": {"content": logprobs(shown, reply.vocabulary)} if shown else None,
                "finish_reason": finish_reason(result) if isinstance(result, Final) else None,
            }
        ],
        "created": int(time.time()),
        "model": reply.model,
        "system_fingerprint": FINGERPRINT,
        "object": "text_completion",
    }
    if isinstance(result, Final):
        chunk["usage"] = usage(task, result.stats)
    chunk["id"] = reply.id
    if task.params.verbose:
        chunk["__verbose"] = native(reply, task, result)
    if result.stats:
        chunk["timings"] = timings(result.stats)
    return chunk


def finish_reason(final: Final) -> str:
    return "stop" if final.stop_type in ("word", "eos") else "length"


def _ratio(number: float, count: float) -> float:
    return number / count if count else 0.0


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else LOWEST
