"""Tool calls in the answers of the scripted target: `<tool_call>` and a JSON object in the text.

Invariant: pure; what `read_calls` finds in a longer text extends what it found in a shorter one.
"""

import re
from dataclasses import dataclass

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_HEAD = re.compile(r'\s*\{"name": "(\w+)", "arguments": ')


@dataclass(frozen=True)
class Call:
    """A tool call as far as it has been read."""

    name: str
    arguments: str


def read_calls(text: str, *, partial: bool) -> tuple[str, list[Call]]:
    """(content, calls) of an answer's text; `partial` holds back what may become a mark."""
    content, *rest = text.split(OPEN)
    calls = [call for part in rest if (call := _read_call(part)) is not None]
    if partial and not rest:
        content = content[: len(content) - _overlap(content, OPEN)]
    return (content.rstrip() if rest else content), calls


def _read_call(text: str) -> Call | None:
    body, closed, _ = text.partition(CLOSE)
    head = _HEAD.match(body)
    if head is None:
        return None
    arguments = body[head.end() :]
    if not closed:
        arguments = arguments[: len(arguments) - _overlap(arguments, CLOSE)]
    return Call(head[1], arguments.rstrip().removesuffix("}"))


def _overlap(text: str, mark: str) -> int:
    """How many of the last characters begin `mark`."""
    lengths = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(mark[:length])), 0)
