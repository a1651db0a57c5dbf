"""Which requests may go to the target as a stream although the client wants one answer.

Invariant: a request is refused here unless its stream holds the plain answer, apart from the
rare endings that only the stream itself shows (see `assemble`).
"""

from specproxy.target.deltas import Json, Kind

# Set, these lead to answers that a stream does not hold: choices and probabilities arrive in
# other shapes, `n_indent` takes back text that was sent, the rest is refused by the target.
_COUNTS = ("n", "n_cmpl")
_UNSET = ("best_of", "suffix", "echo", "n_probs", "logprobs", "top_logprobs", "n_indent")


def can_assemble(kind: Kind, body: Json) -> bool:
    """Whether the plain answer to `body` can be had from a stream; if not, send it as it came.

    Refused: several choices or prompts, token probabilities, a choice of fields, prefilled
    messages and what the target does differently in a stream.
    """
    return (
        kind in ("chat", "completions", "native")
        and _overwrites_nothing(kind, body)
        and all(type(body.get(key, 1)) in (int, type(None)) for key in _COUNTS)
        and all(body.get(key) in (None, 1) for key in _COUNTS)
        and all(body.get(key) in (None, 0, False) for key in _UNSET)
        and body.get("response_fields") in (None, [])
        and (_chat_can_assemble(body) if kind == "chat" else _is_one_prompt(body.get("prompt")))
    )


def _overwrites_nothing(kind: Kind, body: Json) -> bool:
    """Whether `streamed_body` takes nothing away that counts: not a stream, a debug answer, or a
    value of the wrong type, for which the target has an error."""
    options = body.get("stream_options") or {}
    overwritten = [body.get(key) for key in ("stream", "return_progress", "timings_per_token")]
    return (
        isinstance(options, dict)
        and all(value is None or isinstance(value, bool) for value in overwritten)
        and options.get("include_usage") in (None, True, False)
        and body.get("stream") is not True
        and (kind == "native" or body.get("verbose") is None or body["verbose"] is False)
    )


def _chat_can_assemble(body: Json) -> bool:
    # Legacy reasoning repeats the thoughts in the content, but only in a stream.
    return (
        body.get("continue_final_message") in (None, False)
        and body.get("reasoning_format") != "deepseek-legacy"
    )


def _is_one_prompt(prompt: object) -> bool:
    """Follows tokenize_input_prompts: a list with a number in it is one prompt."""
    if isinstance(prompt, str | dict):
        return True
    if not isinstance(prompt, list):
        return False
    return len(prompt) == 1 or any(type(part) in (int, float) for part in prompt)


def streamed_body(kind: Kind, body: Json) -> Json:
    """`body` as a stream, with the numbers that `Assembler` needs. `body` is not changed."""
    streamed = {key: value for key, value in body.items() if key != "return_progress"}
    streamed["stream"] = True
    if kind != "native":  # (a native answer shows its settings, and has the numbers anyway)
        streamed["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        streamed["timings_per_token"] = True
        streamed["verbose"] = True
    return streamed
