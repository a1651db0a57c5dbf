"""Llama 3: `{"name": ..., "parameters": {...}}`, bare or after `<|python_tag|>`.

A bare call is looked for where a line begins, or anywhere when the answer has to call; it has to
name a function of the request, so that JSON in prose stays prose.
"""

from collections.abc import Callable, Sequence

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.tools.call_rules import add_json_calls
from specproxy.coordinator.tools.identities import random_id
from specproxy.coordinator.tools.protocol import Delta, Tool, ToolChoice, ToolParser
from specproxy.coordinator.tools.stream_parser import StreamParser
from specproxy.coordinator.tools.until import add_until

_TAG = "<|python_tag|>"
_LINE_START = "\n"
_BRACE = "{"


class Llama3Parser(StreamParser):
    """Calls and text in between."""

    def __init__(
        self,
        tools: Sequence[Tool],
        parallel: bool,
        new_id: Callable[[], str],
        *,
        anywhere: bool = False,
    ) -> None:
        """Args:
        anywhere: calls may begin within a line.
        """
        super().__init__(tools, parallel, new_id, self._at_line_start)
        self._markers = (_TAG, _LINE_START, _BRACE) if anywhere else (_TAG, _LINE_START)

    def _in_content(self) -> bool:
        """Inside a line."""
        if not self._may_call:
            self._say(self._pending)
            self._pending = ""
            return False
        marker = self._say_until(self._markers)
        if not marker:
            return False
        if marker == _TAG:
            self._raw, self._state = marker, self._after_tag
        elif marker == _BRACE:
            self._pending = _BRACE + self._pending
            return self._begin_call(self._in_call)
        else:
            self._say(marker)
            self._state = self._at_line_start
        return True

    def _at_line_start(self) -> bool:
        if not self._may_call:
            self._state = self._in_content
            return True
        rest = self._pending.lstrip()
        if not rest:
            self._say(self._pending)
            self._pending = ""
            return False
        self._say(self._pending[: len(self._pending) - len(rest)])
        self._pending = rest
        if rest[0] == "{":
            return self._begin_call(self._in_call)
        self._state = self._in_content
        return True

    def _after_tag(self) -> bool:
        if not self._skip_spaces():
            return False
        if self._pending[0] == "{":
            return self._begin_call(self._in_call)
        self._say(self._raw)
        self._raw, self._state = "", self._in_content
        return True

    def _in_call(self) -> bool:
        return self._read_call(self._after_call, self._in_content)

    def _after_call(self) -> bool:
        """Another call may follow after a semicolon, spaces or a tag."""
        if not self._skip_spaces():
            return False
        tagged = self._starts_with(_TAG)
        if tagged is None and self._may_call:
            return False
        if self._may_call and self._pending[0] == ";" and ";" not in self._raw:
            self._raw, self._pending = self._raw + ";", self._pending[1:]
        elif self._may_call and tagged:
            self._pending = self._pending.removeprefix(_TAG)
            self._raw, self._state = self._raw + _TAG, self._after_tag
        elif self._may_call and self._pending[0] == "{":
            return self._begin_call(self._in_call)
        else:
            self._say(self._raw)
            self._raw, self._state = "", self._in_content
        return True

    def finish(self) -> list[Delta]:
        """As in the protocol; spaces after a call are structure."""
        if self._state == self._after_call and not self._pending and not self._raw.strip():
            self._raw = ""
        return super().finish()


class Llama3Format:
    """See the module."""

    name = "llama3"
    special_texts = frozenset({_TAG})
    structures_all = False

    def parser(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """As in the protocol."""
        forced = tool_choice != "auto"
        return Llama3Parser(tools, parallel, new_id or random_id, anywhere=forced)

    def add_calls(self, converter: SchemaConverter, tools: Sequence[Tool], parallel: bool) -> str:
        """As in the protocol; never more than one call, as in llama-server."""
        wrapper = r'("\"type\"" space ":" space "\"function\"" space "," space)? '
        calls = add_json_calls(converter, tools, arguments_key="parameters", before=wrapper)
        return f"{add_until(converter.rules, _BRACE)} space {calls} space"
