"""Mistral: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, and since 2025
`[TOOL_CALLS]name[ARGS]{...}`, where `[CALL_ID]...` may come before `[ARGS]`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.schema.rules import literal
from specproxy.coordinator.tools.call_rules import add_arguments, add_json_calls
from specproxy.coordinator.tools.identities import short_id
from specproxy.coordinator.tools.markers import split_at_marker
from specproxy.coordinator.tools.protocol import Delta, Tool, ToolChoice, ToolParser
from specproxy.coordinator.tools.stream_parser import StreamParser
from specproxy.coordinator.tools.until import add_until
from specproxy.errors import RequestError

_CALLS = "[TOOL_CALLS]"
_ARGUMENTS = "[ARGS]"
_CALL_ID = "[CALL_ID]"
_MAX_HEAD_CHARACTERS = 256
_STRING = r'"\"" ( [^"\\] | "\\" ( ["\\/ bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""'
_NUMBER = '"-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? (("e" | "E") [+-]? [0-9]+)?'


class MistralParser(StreamParser):
    """Text, then calls in either form."""

    def __init__(self, tools: Sequence[Tool], parallel: bool, new_id: Callable[[], str]) -> None:
        super().__init__(tools, parallel, new_id, self._in_content)

    def _in_content(self) -> bool:
        if not self._may_call:
            self._say(self._pending)
            self._pending = ""
        elif marker := self._say_until((_CALLS,)):
            self._raw, self._state = marker, self._after_marker
            return True
        return False

    def _after_marker(self) -> bool:
        if not self._skip_spaces():
            return False
        if self._pending[0] == "[":
            self._raw, self._pending = self._raw + "[", self._pending[1:]
            self._state = self._before_item
        elif self._pending[0] == "{":
            return self._begin_call(self._in_item)
        else:
            self._state = self._in_head
        return True

    # the list of JSON objects

    def _before_item(self) -> bool:
        if not self._skip_spaces():
            return False
        if self._pending[0] == "{" and self._may_call:
            return self._begin_call(self._in_item)
        return self._give_up()

    def _in_item(self) -> bool:
        return self._read_call(self._after_item, self._in_content)

    def _after_item(self) -> bool:
        if not self._skip_spaces():
            return False
        if self._pending[0] == "," and self._may_call:
            self._raw, self._pending = self._raw + ",", self._pending[1:]
            self._state = self._before_item
        else:
            if self._pending[0] == "]":
                self._swallow("]")
            self._state = self._between
        return True

    # the name, then the arguments

    def _in_head(self) -> bool:
        """A name, perhaps an id, up to the arguments."""
        head, marker, rest = split_at_marker(self._pending, (_ARGUMENTS, "{"))
        if not marker:
            possible = len(self._pending) <= _MAX_HEAD_CHARACTERS and self._may_be_head(head)
            return False if possible else self._give_up()
        name, _, identity = head.partition(_CALL_ID)
        if name.strip() not in self._names or len(head) > _MAX_HEAD_CHARACTERS:
            return self._give_up()
        self._pending = rest if marker == _ARGUMENTS else marker + rest
        self._begin_arguments(name.strip(), identity.strip() or self._new_id(), self._in_arguments)
        return True

    def _may_be_head(self, head: str) -> bool:
        """Whether a function's name, or its beginning, is all that is before a call id."""
        name, marked, _ = head.partition("[")
        if marked:
            return name.strip() in self._names
        return any(one.startswith(name.strip()) for one in self._names)

    def _in_arguments(self) -> bool:
        return self._read_arguments(self._between, self._in_content)

    def _between(self) -> bool:
        """After a call, before another or before text."""
        if not self._skip_spaces():
            return False
        marked = self._starts_with(_CALLS) if self._may_call else False
        if marked is None:
            return False
        if not marked:
            self._say(self._raw)
        self._raw, self._state = "", self._in_content
        return True

    def _give_up(self) -> bool:
        self._say(self._raw)
        self._raw, self._state = "", self._in_content
        return True

    def finish(self) -> list[Delta]:
        """As in the protocol; a closing bracket may be missing."""
        if self._state in (self._between, self._after_item) and not self._pending:
            self._raw = ""
        return super().finish()


@dataclass(frozen=True, slots=True)
class MistralFormat:
    """Attributes:
    names_first: calls are written as name and arguments, not as a list.
    has_call_ids: between the two stands an id.
    """

    names_first: bool = False
    has_call_ids: bool = False
    name = "mistral"
    special_texts = frozenset({_CALLS, _ARGUMENTS, _CALL_ID})
    structures_all = False

    def parser(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """As in the protocol."""
        return MistralParser(tools, parallel, new_id or short_id)

    def add_calls(self, converter: SchemaConverter, tools: Sequence[Tool], parallel: bool) -> str:
        """As in the protocol; a model with call ids cannot be forced, as llama-server's grammar
        for it is broken."""
        if self.has_call_ids:
            raise RequestError(
                "This model cannot be forced to call a tool.", remedy="Use `tool_choice` auto."
            )
        text = add_until(converter.rules, _CALLS)
        if not self.names_first:
            identity = rf' space "," space ("\"id\"" space ":" space ({_STRING} | {_NUMBER}))?'
            calls = add_json_calls(converter, tools, after=identity)
            more = f' (space "," space {calls})*' if parallel else ""
            return f'{text} "{_CALLS}" space "[" space {calls}{more} space "]" space'
        calls = " | ".join(
            f'{literal(tool["function"]["name"])} "{_ARGUMENTS}" {add_arguments(converter, tool)}'
            for tool in tools
        )
        return f'space {text} space ("{_CALLS}" ({calls})){"+" if parallel else ""}'
