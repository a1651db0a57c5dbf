"""Regular expressions as grammars, as far as they are regular in the grammar's sense."""

import re
from dataclasses import dataclass

from specproxy.coordinator.schema.rules import Rules, repetition

_MAX_DEPTH = 100
_SPECIAL = frozenset("|.()[]{}*+?^$")
_ESCAPED_HERE_ONLY = frozenset("^$.[]()|{}*+?")
_GRAMMAR_ESCAPE = re.compile(r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])')


class UnsupportedPattern(Exception):
    """A regular expression that no grammar can say."""


class InvalidPattern(Exception):
    """No regular expression."""


@dataclass(slots=True)
class _Item:
    """A piece of a sequence: a literal without its quotes, or an expression."""

    text: str
    is_literal: bool

    @property
    def rule(self) -> str:
        return f'"{self.text}"' if self.is_literal else self.text


def add_pattern(pattern: str, name: str, rules: Rules) -> str:
    """Add a string that matches `pattern` under `name`.

    Raises:
        UnsupportedPattern: it uses what a grammar cannot say.
        InvalidPattern: it is malformed.
    """
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        raise UnsupportedPattern("it is not anchored with ^ and $")
    expression = _Reader(pattern[1:-1], name, rules).read()
    return rules.add(name, rf'"\"" ({expression}) "\""')


class _Reader:
    def __init__(self, pattern: str, name: str, rules: Rules) -> None:
        self._pattern = pattern
        self._name = name
        self._rules = rules
        self._at = 0
        self._depth = 0
        self._repeated: dict[str, str] = {}

    def read(self) -> str:
        expression = self._sequence()
        if self._depth:
            raise InvalidPattern("a parenthesis is not closed")
        return expression

    def _sequence(self) -> str:
        """Up to the closing parenthesis or the end."""
        items: list[_Item] = []
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == ".":
                self._at += 1
                items.append(_Item(self._rules.add("dot", r"[^\x0A\x0D]"), False))
            elif character == "(":
                items.append(self._group())
            elif character == ")":
                self._at += 1
                if not self._depth:
                    raise InvalidPattern("a parenthesis is not opened")
                self._depth -= 1
                return _joined(items)
            elif character in "^$":
                raise UnsupportedPattern("it has an anchor inside")
            elif character == "[":
                items.append(self._class())
            elif character == "|":
                self._at += 1
                items.append(_Item("|", False))
            elif character in "*+?":
                self._at += 1
                last = _last_of(items)
                last.text, last.is_literal = last.rule + character, False
            elif character == "{":
                self._repeat(_last_of(items), *self._bounds())
            else:
                items.append(self._literal())
        return _joined(items)

    def _group(self) -> _Item:
        self._at += 1
        if self._pattern.startswith("?", self._at):
            if not self._pattern.startswith("?:", self._at):
                raise UnsupportedPattern("it has a group of a special kind")
            self._at += 2
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnsupportedPattern("it is nested too deeply")
        return _Item(f"({self._sequence()})", False)

    def _class(self) -> _Item:
        start = self._at
        self._at += 1
        while self._at < len(self._pattern) and self._pattern[self._at] != "]":
            self._at += self._escape_length() if self._pattern[self._at] == "\\" else 1
        if self._at >= len(self._pattern):
            raise InvalidPattern("a character class is not closed")
        self._at += 1
        return _Item(self._pattern[start : self._at], False)

    def _escape_length(self) -> int:
        found = _GRAMMAR_ESCAPE.match(self._pattern, self._at)
        if found is None:
            escape = self._pattern[self._at : self._at + 2]
            raise UnsupportedPattern(f"it has the escape {escape}")
        return len(found[0])

    def _bounds(self) -> tuple[int, int | None]:
        end = self._pattern.find("}", self._at)
        if end < 0:
            raise UnsupportedPattern("a curly bracket is not closed")
        numbers = self._pattern[self._at + 1 : end].split(",")
        self._at = end + 1
        try:
            if len(numbers) == 1:
                return int(numbers[0]), int(numbers[0])
            least, most = numbers
            return int(least or 0), int(most) if most else None
        except ValueError as error:
            raise UnsupportedPattern("its curly brackets hold no numbers") from error

    def _repeat(self, item: _Item, least: int, most: int | None) -> None:
        if not item.is_literal:
            if item.text not in self._repeated:
                number = len(self._repeated) + 1
                self._repeated[item.text] = self._rules.add(f"{self._name}-{number}", item.text)
            item.text = self._repeated[item.text]
        item.text, item.is_literal = repetition(item.rule, least, most), False

    def _literal(self) -> _Item:
        start, text = self._at, ""
        pattern = self._pattern
        while self._at < len(pattern):
            character = pattern[self._at]
            following = pattern[self._at + 1 : self._at + 2]
            if character == "\\":
                if not following:
                    raise InvalidPattern("it ends with a backslash")
                if following in _ESCAPED_HERE_ONLY:
                    text += following
                    self._at += 2
                else:
                    length = self._escape_length()
                    text += pattern[self._at : self._at + length]
                    self._at += length
            elif character == '"':
                text += r"\""
                self._at += 1
            elif character not in _SPECIAL and (
                not following or not text or following == "." or following not in _SPECIAL
            ):
                text += character
                self._at += 1
            else:
                break
        if not text:
            raise UnsupportedPattern(f"it has the character {pattern[start]}")
        return _Item(text, True)


def _last_of(items: list[_Item]) -> _Item:
    if not items:
        raise InvalidPattern("there is nothing to repeat")
    return items[-1]


def _joined(items: list[_Item]) -> str:
    """The sequence, neighbouring literals merged."""
    merged: list[_Item] = []
    for item in items:
        if merged and item.is_literal and merged[-1].is_literal:
            merged[-1] = _Item(merged[-1].text + item.text, True)
        else:
            merged.append(item)
    return " ".join(item.rule for item in merged)
