"""gpt-oss: messages in channels, each `<|channel|>HEADER<|message|>TEXT<|end|>`.

analysis is reasoning; final, and commentary to nobody, are content; a header with
`to=functions.NAME` is a call whose text is its arguments. The prompt ends with
`<|start|>assistant`, so that an answer begins inside a header.
"""

import re
from collections.abc import Callable, Sequence

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.schema.rules import literal
from specproxy.coordinator.tools.call_rules import add_arguments
from specproxy.coordinator.tools.identities import random_id
from specproxy.coordinator.tools.markers import split_at_marker
from specproxy.coordinator.tools.protocol import (
    Content,
    Delta,
    Reasoning,
    Tool,
    ToolChoice,
    ToolParser,
)
from specproxy.coordinator.tools.stream_parser import StreamParser
from specproxy.coordinator.tools.until import add_until

_MESSAGE = "<|message|>"
_START = "<|start|>"
_CHANNEL = "<|channel|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_CHANNEL_RULE = '"<|channel|>" ("commentary" | "analysis")'
_CONSTRAINT_RULE = '(space "<|constrain|>"? [A-Za-z0-9_-]+)?'
_RECIPIENT = re.compile(r"\bto=(\S+?)(?=\s|<\||$)")
_CHANNEL_NAME = re.compile(r"<\|channel\|>\s*([a-z]+)")


class HarmonyParser(StreamParser):
    """Headers and texts in turn."""

    def __init__(self, tools: Sequence[Tool], parallel: bool, new_id: Callable[[], str]) -> None:
        super().__init__(tools, parallel, new_id, self._at_start)
        self._kind: type[Content | Reasoning] = Content

    def _at_start(self) -> bool:
        """A model that writes no header at all is taken at its word."""
        if not self._skip_spaces():
            return False
        headed = [self._starts_with(one) for one in (_CHANNEL, _START, "to=")]
        if any(headed):
            self._state = self._in_header
        elif any(one is None for one in headed):
            return False
        else:
            self._say(self._raw)
            self._raw, self._state = "", self._in_text
        return True

    def _in_header(self) -> bool:
        header, marker, rest = self._pending.partition(_MESSAGE)
        if not marker:
            return False
        header = self._raw + header
        self._raw, self._pending = "", rest
        recipient = _RECIPIENT.search(header)
        channel = [found[1] for found in _CHANNEL_NAME.finditer(header)][-1:]
        name = recipient[1].removeprefix("functions.") if recipient else ""
        if name in self._names and self._may_call:
            self._kind = Content
            self._begin_arguments(name, self._new_id(), self._in_arguments)
        else:
            self._kind = Reasoning if channel == ["analysis"] else Content
            self._state = self._in_text
        return True

    def _in_text(self) -> bool:
        before, marker, self._pending = split_at_marker(self._pending, (*_ENDS, _START))
        self._say(before, self._kind)
        if not marker:
            return False
        self._raw = marker if marker == _START else ""
        self._state = self._in_header if marker == _START else self._between
        return True

    def _in_arguments(self) -> bool:
        return self._read_arguments(self._after_arguments, self._in_text)

    def _after_arguments(self) -> bool:
        """Only an end may follow; what else does is content."""
        if not self._skip_spaces():
            return False
        ended = [self._starts_with(end) for end in (*_ENDS, _START)]
        if not any(ended):
            if any(one is None for one in ended):
                return False
            self._say(self._raw)
        self._raw, self._state = "", self._in_text
        return True

    def _between(self) -> bool:
        """After a message: the next one's start, or nothing."""
        if not self._skip_spaces():
            return False
        started = [self._starts_with(one) for one in (_START, _CHANNEL)]
        if any(started):
            self._raw, self._state = "", self._in_header
        elif any(one is None for one in started):
            return False
        else:
            self._say(self._raw)
            self._kind = Content
            self._raw, self._state = "", self._in_text
        return True

    def finish(self) -> list[Delta]:
        """As in the protocol; a header without a text is dropped, for it says nothing."""
        if self._state in (self._in_header, self._between, self._after_arguments):
            self._raw = self._pending = ""
        self._say(self._raw + self._pending, self._kind)
        self._raw = self._pending = ""
        return super().finish()


class HarmonyFormat:
    """See the module."""

    name = "gpt-oss"
    special_texts = frozenset({_MESSAGE, _START, _CHANNEL, "<|constrain|>", *_ENDS})
    structures_all = True

    def parser(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """As in the protocol."""
        return HarmonyParser(tools, parallel, new_id or random_id)

    def add_calls(self, converter: SchemaConverter, tools: Sequence[Tool], parallel: bool) -> str:
        """As in the protocol; one call, as in llama-server."""
        text, analysis = _add_messages(converter)
        calls = []
        for tool in tools:
            arguments = add_arguments(converter, tool)
            name = f'" to=functions." {literal(tool["function"]["name"])}'
            tail = f'{_CONSTRAINT_RULE} "{_MESSAGE}" {arguments}'
            calls += [f"{name} {_CHANNEL_RULE} {tail}", f"{_CHANNEL_RULE} {name} {tail}"]
        preamble = f'"<|channel|>commentary<|message|>" {text} "<|end|>"'
        start = '"<|start|>assistant"'
        return f"(({preamble} | {analysis}) {start})* ({' | '.join(calls)})"


def add_final(converter: SchemaConverter, response: str) -> str:
    """Add an answer whose final message is `response`; its expression."""
    _, analysis = _add_messages(converter)
    return (
        f'({analysis} "<|start|>assistant")* '
        f'"<|channel|>final" {_CONSTRAINT_RULE} "{_MESSAGE}" {response}'
    )


def _add_messages(converter: SchemaConverter) -> tuple[str, str]:
    """A message's text, and a whole message of reasoning."""
    text = add_until(converter.rules, "<|end|>")
    stray = '("<|channel|>commentary" " to=assistant"?)?'
    analysis = f'{stray} "<|channel|>analysis<|message|>" {text} "<|end|>"'
    return text, converter.rules.add("analysis", analysis)
