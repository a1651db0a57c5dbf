"""One tool call, written as a JSON object with a name and arguments.

Invariant: a call begins only when its name is one of the request's functions and its arguments
have begun; from there on they are passed on as they come. Until then all text is held.
"""

import json
from collections.abc import Callable

from specproxy.coordinator.tools.arguments import Reading
from specproxy.coordinator.tools.json_scanner import JsonScanner
from specproxy.coordinator.tools.protocol import Delta, ToolCallArguments, ToolCallStart

_ARGUMENT_KEYS = ("arguments", "parameters")
_KNOWN_KEYS = frozenset({"name", "id", "type", *_ARGUMENT_KEYS})


class CallReader:
    """A call from its opening brace on.

    Attributes:
        held: text that has not gone out in any form; of use when the call is broken.
        begun: the call has begun.
    """

    def __init__(self, index: int, names: frozenset[str], new_id: Callable[[], str]) -> None:
        self.held = ""
        self.begun = False
        self._index = index
        self._names = names
        self._new_id = new_id
        self._scanner = JsonScanner()
        self._key = ""
        self._value: str | None = None
        self._members: dict[str, str] = {}
        self._streams = False
        self._deltas: list[Delta] = []
        self._fragment = ""

    def push(self, character: str) -> Reading:
        """Take a character. BROKEN: no call goes on by it; it is not in `held`."""
        scanner = self._scanner
        if scanner.depth == 0 and character != "{":
            return Reading.BROKEN
        if character == "}" and self._is_after_comma():
            # the grammar that llama-server makes for Mistral writes `, }` before a missing id
            return self._end()
        was_begun, was_key = self.begun, scanner.in_key
        was_scalar = scanner.in_scalar and scanner.depth == 1
        begins_value = scanner.expects_value and scanner.depth == 1 and not character.isspace()
        if not scanner.push(character):
            return Reading.BROKEN
        if scanner.depth == 1 and (scanner.in_key or was_key):
            good = self._take_key(character, began=not was_key)
        elif begins_value:
            good = self._begin_value(character)
        else:
            good = self._take_value(character, ended_before=was_scalar and not scanner.in_scalar)
        if not good:
            return Reading.BROKEN
        if scanner.complete:
            return self._end()
        if not self._streams and self.begun == was_begun:
            self.held += character
        self._streams = self._streams and self._value is not None
        return Reading.OPEN

    def take(self) -> list[Delta]:
        """What has become certain since the last time."""
        deltas, self._deltas = self._deltas, []
        if self._fragment:
            deltas.append(ToolCallArguments(self._index, self._fragment))
            self._fragment = ""
        return deltas

    def _is_after_comma(self) -> bool:
        scanner = self._scanner
        return scanner.depth == 1 and self.begun and self.held.rstrip().endswith(",")

    def _take_key(self, character: str, *, began: bool) -> bool:
        if began:
            self._key = ""
        elif self._scanner.in_key:
            self._key += character
        else:
            return self._key in _KNOWN_KEYS and self._key not in self._members
        return True

    def _begin_value(self, character: str) -> bool:
        self._value = character
        if self._key not in _ARGUMENT_KEYS:
            return True
        if any(key in self._members for key in _ARGUMENT_KEYS) or character not in '{"':
            return False
        if "name" in self._members and character == "{":
            self._begin()
            self._streams = True
            self._fragment = character
        return True

    def _take_value(self, character: str, *, ended_before: bool) -> bool:
        if self._value is None:
            return True
        if not ended_before:
            self._value += character
            if self._streams:
                self._fragment += character
        if ended_before or (self._scanner.after_value and self._scanner.depth == 1):
            return self._end_value()
        return True

    def _end_value(self) -> bool:
        assert self._value is not None
        value, self._value = self._value, None
        if self._key == "name":
            value = _text_of(value)
            if value not in self._names:
                return False
        elif self._key == "id":
            value = _text_of(value)
        elif self._key in _ARGUMENT_KEYS and value.startswith('"'):
            value = json.loads(value)
            if not _is_object(value):
                return False
        self._members[self._key] = value
        if not self.begun and "name" in self._members:
            for key in _ARGUMENT_KEYS:
                if key in self._members:
                    self._begin()
                    self._fragment = self._members[key]
        return True

    def _begin(self) -> None:
        self.begun = True
        self.held = ""
        identity = self._members.get("id") or self._new_id()
        self._deltas.append(ToolCallStart(self._index, identity, self._members["name"]))

    def _end(self) -> Reading:
        return Reading.DONE if self.begun else Reading.BROKEN


def _text_of(value: str) -> str:
    """A JSON string's text; a number as it is written; of anything else nothing."""
    if value.startswith('"'):
        return str(json.loads(value))
    return value if value.isdigit() else ""


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
