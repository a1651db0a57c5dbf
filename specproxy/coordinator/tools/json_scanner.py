"""JSON, character by character: is this still JSON, how deep are we, and is it over?

Invariant: what was accepted is the beginning of a JSON text, numbers and literals apart, which are
checked where they end.
"""

import re

_SPACE = " \t\n\r"
_OPENERS = {"{": "}", "[": "]"}
_SCALAR = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false|null")
_SCALAR_CHARACTERS = frozenset("+-.0123456789Eaeflnrstu")
_HEX = frozenset("0123456789abcdefABCDEF")


class JsonScanner:
    """One JSON value.

    Attributes:
        complete: the value is over. A number or literal at the top is never known to be.
    """

    def __init__(self) -> None:
        self.complete = False
        self._closers: list[str] = []
        self._state = "value"
        self._scalar = ""
        self._num_hex = 0
        self._in_key = False

    @property
    def depth(self) -> int:
        """Open objects and arrays."""
        return len(self._closers)

    @property
    def in_key(self) -> bool:
        """Inside the name of a member."""
        return self._in_key

    @property
    def in_string(self) -> bool:
        """Inside a text, or a member's name."""
        return self._state in ("string", "escape", "hex")

    @property
    def in_scalar(self) -> bool:
        """Inside a number or literal: only what follows can end it."""
        return self._state == "scalar"

    @property
    def expects_value(self) -> bool:
        """A value must come, after spaces at most."""
        return self._state == "value"

    @property
    def after_value(self) -> bool:
        """A value inside an object or array is over."""
        return self._state == "after"

    def push(self, character: str) -> bool:
        """Take one more character; False: it cannot follow, and nothing has changed."""
        state = self._state
        if state == "string":
            return self._push_string(character)
        if state == "escape":
            return self._push_escape(character)
        if state == "hex":
            return self._push_hex(character)
        if state == "scalar":
            return self._push_scalar(character)
        if self.complete:
            return False
        if character in _SPACE:
            return True
        if state == "after":
            return self._push_after(character)
        if state == "colon":
            return character == ":" and self._become("value")
        if state in ("key", "first key"):
            if character == '"':
                self._in_key = True
                return self._become("string")
            return character == "}" and state == "first key" and self._close()
        if character == "]" and state == "first item":
            return self._close()
        return self._begin_value(character)

    def _become(self, state: str) -> bool:
        self._state = state
        return True

    def _begin_value(self, character: str) -> bool:
        if character in _OPENERS:
            self._closers.append(_OPENERS[character])
            return self._become("first key" if character == "{" else "first item")
        if character == '"':
            return self._become("string")
        if character in _SCALAR_CHARACTERS:
            self._scalar = character
            return self._become("scalar")
        return False

    def _push_string(self, character: str) -> bool:
        if character == '"':
            if self._in_key:
                self._in_key = False
                return self._become("colon")
            return self._end_value()
        if character == "\\":
            return self._become("escape")
        return character >= " "

    def _push_escape(self, character: str) -> bool:
        if character == "u":
            self._num_hex = 0
            return self._become("hex")
        return character in '"\\/bfnrt' and self._become("string")

    def _push_hex(self, character: str) -> bool:
        if character not in _HEX:
            return False
        self._num_hex += 1
        return self._become("string" if self._num_hex == 4 else "hex")

    def _push_scalar(self, character: str) -> bool:
        if character in _SCALAR_CHARACTERS:
            self._scalar += character
            return True
        if not self._closers or not _SCALAR.fullmatch(self._scalar):
            return False
        if character in _SPACE:
            return self._become("after")
        return self._push_after(character)

    def _push_after(self, character: str) -> bool:
        if character == ",":
            return self._become("key" if self._closers[-1] == "}" else "value")
        return character == self._closers[-1] and self._close()

    def _close(self) -> bool:
        self._closers.pop()
        return self._end_value()

    def _end_value(self) -> bool:
        self.complete = not self._closers
        return self._become("after")
