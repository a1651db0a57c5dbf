"""The forms in which a prompt may come: text, token ids, both mixed, or a list of those.

Source: `tokenize_input_prompts` of llama.cpp's tools/server/server-common.cpp at 0c1e570.
"""

from typing import Any

from specproxy.coordinator.http.fields import wrong
from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import RequestError

Prompt = tuple[int, ...]
_FORMS = "a string, a list of tokens and strings, or a list of those"


def read_prompts(prompt: Any, vocabulary: Vocabulary) -> list[Prompt]:
    """All prompts of a request; one may have no tokens at all.

    Raises:
        RequestError: there is none, or it has another form.
    """
    if prompt is None:
        raise RequestError("Field 'prompt': it is missing.", remedy=f"Send {_FORMS}.")
    if isinstance(prompt, list) and not any(_is_id(part) for part in prompt):
        if not prompt:
            raise RequestError("Field 'prompt': must not be empty.", remedy=f"Send {_FORMS}.")
        return [_read_prompt(one, vocabulary) for one in prompt]
    return [_read_prompt(prompt, vocabulary)]


def least_tokens(prompt: Any, longest_piece: int) -> int:
    """How many tokens `prompt` has at least, found out without tokenizing it.

    Args:
        longest_piece: bytes that a token can stand for at most.
    """
    if isinstance(prompt, str):
        return len(prompt) // longest_piece
    if isinstance(prompt, list):
        return max((least_tokens(part, longest_piece) for part in prompt), default=0)
    return 0


def tokenize_mixed(
    content: Any, vocabulary: Vocabulary, *, add_special: bool, parse_special: bool
) -> list[int]:
    """Token ids of a string, or of a list of strings and ids.

    Raises:
        RequestError: it is neither.
    """
    if not isinstance(content, str | list):
        raise wrong("content", content, "a string or a list of tokens and strings")
    tokens: list[int] = []
    for i, part in enumerate([content] if isinstance(content, str) else content):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(
                part, add_special=add_special and i == 0, parse_special=parse_special
            )
        elif _is_id(part):
            tokens.append(part)
        else:
            raise wrong(f"content[{i}]", part, "a token or a string")
    return tokens


def check_ids(tokens: list[int], vocabulary: Vocabulary) -> None:
    """
    Raises:
        RequestError: not all of them are in the vocabulary.
    """
    for token in tokens:
        if not 0 <= token < len(vocabulary):
            raise RequestError(
                f"There is no token {token}.", remedy=f"Use 0 to {len(vocabulary) - 1}."
            )


def _read_prompt(prompt: Any, vocabulary: Vocabulary) -> Prompt:
    if isinstance(prompt, dict):
        if prompt.get("multimodal_data"):
            raise RequestError(
                "Field 'prompt': the coordinator does not take images, audio or video.",
                remedy="Send text.",
            )
        prompt = prompt.get("prompt_string")
    is_list = isinstance(prompt, list)
    if not isinstance(prompt, str) and not (is_list and all(_is_part(one) for one in prompt)):
        raise wrong("prompt", prompt, _FORMS)
    tokens = tokenize_mixed(prompt, vocabulary, add_special=True, parse_special=True)
    check_ids(tokens, vocabulary)
    return tuple(tokens)


def _is_id(part: object) -> bool:
    return type(part) is int


def _is_part(part: object) -> bool:
    return isinstance(part, str) or _is_id(part)
