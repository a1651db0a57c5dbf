"""A grammar under construction, and the rules that every JSON grammar is made of."""

import json
import re
from typing import Any

_SPACE = r'| " " | "\n"{1,2} [ \t]{0,20}'
_NAME_FORBIDDEN = re.compile(r"[^a-zA-Z0-9-]+")
_LITERAL_SPECIAL = re.compile(r'[\r\n"\\]')
_ESCAPES = {"\r": r"\r", "\n": r"\n", '"': r"\"", "\\": r"\\"}
_DATE = '[0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [1-2] [0-9] | "3" [0-1] )'
_TIME = (
    '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{3} )? '
    '( "Z" | ( "+" | "-" ) ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )'
)
_UUID = '"-" '.join(f"[0-9a-fA-F]{{{count}}} " for count in (8, 4, 4, 4, 12))
_PRIMITIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "boolean": ('("true" | "false")', ()),
    "decimal-part": ("[0-9]{1,16}", ()),
    "integral-part": ("[0] | [1-9] [0-9]{0,15}", ()),
    "number": (
        '("-"? integral-part) ("." decimal-part)? ([eE] [-+]? integral-part)?',
        ("integral-part", "decimal-part"),
    ),
    "integer": ('("-"? integral-part)', ("integral-part",)),
    "value": (
        "object | array | string | number | boolean | null",
        ("object", "array", "string", "number", "boolean", "null"),
    ),
    "object": (
        '"{" space ( string ":" space value ("," space string ":" space value)* )? space "}"',
        ("string", "value"),
    ),
    "array": ('"[" space ( value ("," space value)* )? space "]"', ("value",)),
    "uuid": (rf'"\"" {_UUID}"\""', ()),
    "char": (
        r'[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})',
        (),
    ),
    "string": (r'"\"" char* "\""', ("char",)),
    "null": ('"null"', ()),
    "date": (_DATE, ()),
    "time": (_TIME, ()),
    "date-time": ('date "T" time', ("date", "time")),
    "date-string": (r'"\"" date "\""', ("date",)),
    "time-string": (r'"\"" time "\""', ("time",)),
    "date-time-string": (r'"\"" date-time "\""', ("date-time",)),
}
RESERVED_NAMES = frozenset({"root", *_PRIMITIVES})


class Rules:
    """Rules by name; a name that is taken by another rule gets a number."""

    def __init__(self) -> None:
        self._rules = {"space": _SPACE}

    def __contains__(self, name: str) -> bool:
        return name in self._rules

    def add(self, name: str, rule: str) -> str:
        """Add `rule`; the name that it got."""
        stem = key = _NAME_FORBIDDEN.sub("-", name)
        number = 0
        while self._rules.get(key, rule) != rule:
            key = f"{stem}{number}"
            number += 1
        self._rules[key] = rule
        return key

    def add_primitive(self, primitive: str, name: str | None = None) -> str:
        """Add a rule of JSON and those it needs, under its own name unless given another."""
        rule, needed = _PRIMITIVES[primitive]
        key = self.add(name or primitive, rule)
        for one in needed:
            if one not in self._rules:
                self.add_primitive(one)
        return key

    def snapshot(self) -> dict[str, str]:
        """For `restore`."""
        return dict(self._rules)

    def restore(self, snapshot: dict[str, str]) -> None:
        """Forget what was added since `snapshot`."""
        self._rules = dict(snapshot)

    def text(self) -> str:
        """The grammar."""
        return "".join(f"{name} ::= {rule}\n" for name, rule in sorted(self._rules.items()))


def literal(text: str) -> str:
    """`text` as a GBNF literal."""
    return '"' + _LITERAL_SPECIAL.sub(lambda found: _ESCAPES[found[0]], text) + '"'


def constant(value: Any) -> str:
    """A JSON value as a GBNF literal."""
    return literal(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def repetition(item: str, least: int, most: int | None, separator: str = "") -> str:
    """`item`, `least` to `most` times, None: without limit."""
    if most == 0:
        return ""
    if least == 0 and most == 1:
        return f"{item}?"
    if not separator:
        if most is None and least in (0, 1):
            return f"{item}{'+' if least else '*'}"
        return f"{item}{{{least},{'' if most is None else most}}}"
    rest = repetition(
        f"({separator} {item})", max(0, least - 1), None if most is None else most - 1
    )
    return f"{item} {rest}" if least else f"({item} {rest})?"
