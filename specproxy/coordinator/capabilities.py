"""What a chat template can do, found out by rendering small conversations.

Source: `caps_get` of llama.cpp (common/jinja/caps.cpp). There, the values of a rendering report
how they were used; here, a mark in them shows in the text or does not.
"""

import re
from dataclasses import dataclass
from typing import Any, Self

from specproxy.coordinator.jinja import JinjaProgram
from specproxy.errors import RequestError

_MARK = "xMARKx"
_USER = {"role": "user", "content": "User message"}
_TOOL = {
    "type": "function",
    "function": {
        "name": _MARK,
        "description": "Tool description",
        "parameters": {
            "type": "object",
            "properties": {"arg": {"type": "string", "description": "Arg description"}},
            "required": ["arg"],
        },
    },
}
_THOUGHT = {"role": "assistant", "content": "ANSWER", "reasoning_content": _MARK}
_THINKING = re.compile(rf"(<think>\s*){_MARK}(\s*</think>\s*)ANSWER")


class _Opaque(dict[str, Any]):
    """Arguments that show only when they are taken apart, not when they are printed whole."""

    def __str__(self) -> str:
        return ""

    __repr__ = __str__


class _OpaqueParts(list[Any]):
    """The same for content in parts."""

    def __str__(self) -> str:
        return ""

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Attributes:
    string_content: content may be a string.
    typed_content: content may be a list of parts.
    system_role: a system message shows.
    tools: descriptions of tools show.
    object_arguments: arguments of past calls are wanted as objects, not as JSON text.
    thinking: what stands before and after the reasoning of an answer; None: no such tags.
    """

    string_content: bool
    typed_content: bool
    system_role: bool
    tools: bool
    object_arguments: bool
    thinking: tuple[str, str] | None

    @classmethod
    def of(cls, program: JinjaProgram) -> Self:
        """Try out `program`."""

        def text_of(messages: list[dict[str, Any]], **variables: Any) -> str:
            common = {"bos_token": "", "eos_token": "", "add_generation_prompt": True}
            try:
                return program.render({**common, "messages": messages, **variables})
            except RequestError:
                return ""

        def shows(messages: list[dict[str, Any]], **variables: Any) -> bool:
            return _MARK in text_of(messages, **variables)

        parts = _OpaqueParts([_Opaque(type="text", text=_MARK)])
        object_arguments = shows(_called(_Opaque(arg=_MARK)), tools=[])
        arguments: Any = {"arg": "value"} if object_arguments else '{"arg": "value"}'
        return cls(
            string_content=shows([{"role": "user", "content": _MARK}]),
            typed_content="sort(attribute=" not in program.source  # its probe sees no use in it
            and shows([{"role": "user", "content": parts}]),
            system_role=shows([{"role": "system", "content": _MARK}, _USER]),
            tools=shows([_USER], tools=[_TOOL]) or shows(_called(arguments), tools=[_TOOL]),
            object_arguments=object_arguments,
            thinking=_thinking_in(text_of([_USER, _THOUGHT], enable_thinking=True))
            or (("<think>", "</think>") if "<think>" in program.source else None),
        )


def _thinking_in(text: str) -> tuple[str, str] | None:
    found = _THINKING.search(text)
    return (found[1], found[2]) if found else None


def _called(arguments: Any) -> list[dict[str, Any]]:
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "tool", "arguments": arguments},
    }
    return [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The tool response was 'tool response'"},
        _USER,
    ]
