"""Checked messages into the form that one template can read.

Source: the work-arounds of `common_chat_templates_apply_jinja` in llama.cpp (common/chat.cpp),
and what it does for gpt-oss and Mistral before it renders.
"""

import json
from typing import Any

from specproxy.coordinator.capabilities import Capabilities
from specproxy.coordinator.messages import Message, joined_text
from specproxy.errors import RequestError


def shape(messages: list[Message], can: Capabilities, source: str) -> list[Message]:
    """`messages`, changed in place, for the template `source`.

    Raises:
        RequestError: the arguments of a past call are no JSON.
    """
    harmony, ministral = is_harmony(source), is_ministral(source)
    for message in messages:
        content = message["content"]
        if can.string_content and not can.typed_content:
            message["content"] = joined_text(content)
        elif can.typed_content and not can.string_content and isinstance(content, str):
            message["content"] = [{"type": "text", "text": content}]
        if message["role"] == "developer" and not harmony:
            message["role"] = "system"
        if harmony and "reasoning_content" in message:
            message["thinking"] = message["reasoning_content"]
            if message.get("tool_calls"):
                del message["content"]
        if ministral and message["role"] in ("system", "assistant"):
            message["content"] = _thinking_blocks(message)
        if can.object_arguments:
            _open_arguments(message)
    if not can.system_role and messages and messages[0]["role"] == "system":
        _fold_system(messages)
    return messages


def is_harmony(source: str) -> bool:
    """Whether it is a template of gpt-oss, which writes in channels."""
    return "<|channel|>" in source


def is_ministral(source: str) -> bool:
    """Whether it is a template of Mistral's third generation, which thinks in `[THINK]`."""
    marks = ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]")
    return all(mark in source for mark in marks) and "[CALL_ID]" not in source


def _thinking_blocks(message: Message) -> list[dict[str, Any]]:
    """Content as those templates read it, the reasoning a block of its own."""
    content = message["content"]
    reasoning = message.pop("reasoning_content", None)
    thinking = [{"type": "thinking", "thinking": reasoning}] if reasoning else []
    text = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [*thinking, *text]


def _fold_system(messages: list[Message]) -> None:
    """Put the first message's text in front of the second's; alone, it is dropped."""
    system = messages.pop(0)
    if messages:
        texts = joined_text(system["content"]), joined_text(messages[0]["content"])
        messages[0]["content"] = "\n".join(texts)


def _open_arguments(message: Message) -> None:
    """Parse the JSON text of past calls' arguments."""
    for call in message.get("tool_calls", ()):
        function = call["function"]
        try:
            function["arguments"] = json.loads(function["arguments"])
        except ValueError as error:
            raise RequestError(
                f"The arguments of the past call of {function['name']} are no JSON: {error}.",
                remedy="Send them back as the answer gave them.",
            ) from error
