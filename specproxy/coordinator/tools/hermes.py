"""Hermes, Qwen 2.5, Qwen 3: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from collections.abc import Callable, Sequence

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.tools.call_rules import add_json_calls
from specproxy.coordinator.tools.identities import random_id
from specproxy.coordinator.tools.protocol import Delta, Tool, ToolChoice, ToolParser
from specproxy.coordinator.tools.stream_parser import StreamParser
from specproxy.coordinator.tools.until import add_until

_OPEN = "<tool_call>"
_CLOSE = "</tool_call>"


class HermesParser(StreamParser):
    """Text, then calls; text again where the model goes on."""

    def __init__(self, tools: Sequence[Tool], parallel: bool, new_id: Callable[[], str]) -> None:
        super().__init__(tools, parallel, new_id, self._in_content)

    def _in_content(self) -> bool:
        if not self._may_call:
            self._say(self._pending)
            self._pending = ""
        elif marker := self._say_until((_OPEN,)):
            self._raw, self._state = marker, self._before_call
            return True
        return False

    def _before_call(self) -> bool:
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
        """Before the closing tag, or before another call beside this one."""
        if not self._skip_spaces():
            return False
        closed = self._starts_with(_CLOSE)
        if closed:
            self._swallow(_CLOSE)
        elif self._pending[0] == "," and self._may_call:
            self._raw, self._pending = self._raw + ",", self._pending[1:]
            self._state = self._before_call
            return True
        elif closed is None:
            return False
        self._state = self._between
        return True

    def _between(self) -> bool:
        """After a call, before another or before text."""
        if not self._skip_spaces():
            return False
        opened = self._starts_with(_OPEN) if self._may_call else False
        if opened is None:
            return False
        if not opened:
            self._say(self._raw)
        self._raw, self._state = "", self._in_content
        return True

    def finish(self) -> list[Delta]:
        """As in the protocol; a closing tag may be missing, or half there."""
        if self._state == self._after_call or (self._state == self._between and not self._pending):
            self._raw = self._pending = ""
        return super().finish()


class HermesFormat:
    """See the module."""

    name = "hermes"
    special_texts = frozenset({_OPEN, _CLOSE})
    structures_all = False

    def parser(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """As in the protocol."""
        return HermesParser(tools, parallel, new_id or random_id)

    def add_calls(self, converter: SchemaConverter, tools: Sequence[Tool], parallel: bool) -> str:
        """As in the protocol."""
        calls = add_json_calls(converter, tools)
        more = f' (space "," space {calls})*' if parallel else ""
        opening = f"{_OPEN}\n"
        one = converter.rules.add("tool-call", rf'"{_OPEN}\n" space {calls}{more} space "{_CLOSE}"')
        return f"{add_until(converter.rules, opening)} ({one} space)+"
