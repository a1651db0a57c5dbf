"""The chat format of the scripted target: template and the split into reasoning and content.

Invariant: pure; `read_answer` of a longer text extends that of a shorter one (partial reading),
as llama-server's chat parser behaves with a `<think>` template.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from specproxy.testing.vocabulary import END_THINK, IM_END, IM_START, THINK

TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
THINKING_TEMPLATE = TEMPLATE + "{# <think></think> #}"
"""The same prompts; it tells that answers may begin with reasoning."""


class BadRequest(Exception):
    """The request's body is wrong: an answer of status 400 (or `status`)."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def chat_prompt(body: Mapping[str, Any]) -> str:
    """The prompt text of a chat request; a last assistant message is continued.

    Raises:
        BadRequest: `messages` is missing or malformed.
    """
    if "messages" not in body:
        raise BadRequest("'messages' is required")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise BadRequest("Expected 'messages' to be an array")
    text = ""
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            raise BadRequest("Missing 'role' in message: " + str(message))
        text += f"{IM_START}{message['role']}\n{_content(message.get('content'))}"
        if i == len(messages) - 1 and message["role"] == "assistant":
            return text
        text += f"{IM_END}\n"
    return f"{text}{IM_START}assistant\n"


def _content(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    raise BadRequest("Invalid 'content' type")


def read_answer(text: str, *, partial: bool) -> tuple[str, str]:
    """(reasoning, content) of an answer; `partial` holds back what may become a tag."""
    if partial and THINK.startswith(text):
        return "", ""
    if not text.startswith(THINK):
        return "", text
    thought = text[len(THINK) :].removeprefix("\n")
    reasoning, end, content = thought.partition(END_THINK)
    if end:
        return reasoning, content.lstrip()
    if partial:
        for length in range(len(END_THINK) - 1, 0, -1):
            if reasoning.endswith(END_THINK[:length]):
                return reasoning[:-length], ""
    return reasoning, ""
