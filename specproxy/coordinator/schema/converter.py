"""From the nodes of a schema to the rules of a grammar."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from specproxy.coordinator.schema.integers import integer_range
from specproxy.coordinator.schema.nodes import (
    AllOf,
    AnyOf,
    AnyValue,
    Array,
    Constant,
    Enumeration,
    Integer,
    Node,
    Object,
    Primitive,
    Reference,
    String,
    Tuple,
)
from specproxy.coordinator.schema.patterns import (
    InvalidPattern,
    UnsupportedPattern,
    add_pattern,
)
from specproxy.coordinator.schema.reader import read_schema
from specproxy.coordinator.schema.rules import (
    RESERVED_NAMES,
    Rules,
    constant,
    repetition,
)
from specproxy.errors import RequestError


class SchemaConverter:
    """Adds schemas to a grammar.

    Attributes:
        rules: of the grammar.
        warnings: what the grammar allows although the schema does not, as llama-server's does.
    """

    def __init__(self) -> None:
        self.rules = Rules()
        self.warnings: list[str] = []
        self._resolving: set[str] = set()

    def add(self, schema: Any, name: str = "") -> str:
        """Add a schema, by default as the root; its rule's name.

        Raises:
            RequestError: it is malformed, or asks for what no grammar can say.
        """
        return self._visit(read_schema(schema), name)

    def _visit(self, node: Node, name: str) -> str:
        rule_name = f"{name}-" if name in RESERVED_NAMES else name or "root"
        match node:
            case Reference():
                return self.rules.add(rule_name, self._resolved(node))
            case AnyOf(children):
                stem = f"{name}-" if name else "alternative-"
                alternatives = [
                    self._visit(child, f"{stem}{at}") for at, child in enumerate(children)
                ]
                return self.rules.add(rule_name, " | ".join(alternatives))
            case AllOf():
                return self._all_of(node, name, rule_name)
            case Constant(value):
                return self.rules.add(rule_name, constant(value))
            case Enumeration(values):
                return self.rules.add(rule_name, f"({' | '.join(map(constant, values))})")
            case Object(properties, required, additional):
                if not properties and isinstance(additional, AnyValue):
                    return self.rules.add(rule_name, self.rules.add_primitive("object"))
                rule = self._object(list(properties.items()), required, name, additional)
                return self.rules.add(rule_name, rule)
            case Tuple(items):
                rules = [
                    self._visit(item, _below(name, f"tuple-{at}")) for at, item in enumerate(items)
                ]
                return self.rules.add(rule_name, f'"[" space {_listed(rules)} space "]"')
            case Array(items, min_items, max_items):
                if isinstance(items, AnyValue) and not min_items and max_items is None:
                    return self._primitive(rule_name, "array")
                item = self._visit(items, _below(name, "item"))
                repeated = repetition(item, min_items, max_items, '"," space')
                return self.rules.add(rule_name, f'"[" space {repeated} space "]"')
            case String():
                return self._string(node, rule_name)
            case Integer(None, None):
                return self._primitive(rule_name, "integer")
            case Integer(minimum, maximum):
                return self.rules.add(rule_name, f"({integer_range(minimum, maximum)})")
            case Primitive(kind):
                return self._primitive(rule_name, kind)
            case AnyValue():
                return self.rules.add(rule_name, self.rules.add_primitive("value"))

    def _primitive(self, rule_name: str, primitive: str) -> str:
        return self.rules.add_primitive(primitive, "root" if rule_name == "root" else None)

    def _resolved(self, reference: Reference) -> str:
        name = "ref" + re.sub(r"[^a-zA-Z0-9-]+", "-", reference.ref.partition("#")[2])
        if name in self.rules or reference.ref in self._resolving:
            return name
        assert reference.target is not None
        self._resolving.add(reference.ref)
        name = self._visit(reference.target, name)
        self._resolving.discard(reference.ref)
        return name

    def _string(self, node: String, rule_name: str) -> str:
        if node.pattern:
            return self._pattern(node.pattern, rule_name)
        if node.format == "uuid":
            return self._primitive(rule_name, "uuid")
        if node.format is not None:
            return self.rules.add(rule_name, self.rules.add_primitive(f"{node.format}-string"))
        if node.min_length or node.max_length is not None:
            character = self.rules.add_primitive("char")
            repeated = repetition(character, node.min_length, node.max_length)
            return self.rules.add(rule_name, rf'"\"" {repeated} "\""')
        return self._primitive(rule_name, "string")

    def _pattern(self, pattern: str, rule_name: str) -> str:
        before = self.rules.snapshot()
        try:
            return add_pattern(pattern, rule_name, self.rules)
        except UnsupportedPattern as error:
            self.rules.restore(before)
            self.warnings.append(f"any string is accepted for the pattern {pattern}: {error}")
            return self.rules.add(rule_name, self.rules.add_primitive("string"))
        except InvalidPattern as error:
            raise RequestError(
                f"The JSON schema cannot be followed: the pattern {pattern} is malformed: {error}.",
                remedy="Mend that pattern.",
            ) from error

    def _all_of(self, node: AllOf, name: str, rule_name: str) -> str:
        properties: list[tuple[str, Node]] = []
        required: set[str] = set()
        num_enums: dict[str, int] = {}

        def add(part: Node | None, needed: bool) -> None:
            match part:
                case Reference(_, target):
                    add(target, needed)
                case Object(members):
                    properties.extend(members.items())
                    required.update(members if needed else ())
                case Enumeration(values):
                    for value in map(constant, values):
                        num_enums[value] = num_enums.get(value, 0) + 1

        for child in node.children:
            if isinstance(child, AnyOf):
                for alternative in child.children:
                    add(alternative, False)
            else:
                add(child, True)
        shared = sorted(one for one, count in num_enums.items() if count == len(node.children))
        if shared:
            return self.rules.add(rule_name, f"({' | '.join(shared)})")
        return self.rules.add(rule_name, self._object(properties, required, name, None))

    def _object(
        self,
        properties: Sequence[tuple[str, Node]],
        required: Iterable[str],
        name: str,
        additional: Node | None,
    ) -> str:
        members: dict[str, str] = {}
        needed: list[str] = []
        optional: list[str] = []
        for member, node in properties:
            value = self._visit(node, _below(name, member))
            rule = f'{constant(member)} space ":" space {value}'
            members[member] = self.rules.add(_below(name, f"{member}-kv"), rule)
            (needed if member in required else optional).append(member)
        if additional is not None:
            names = [member for member, _ in properties]
            members["*"] = self._additional(additional, names, _below(name, "additional"))
            optional.append("*")
        if not needed and not optional:
            return '"{" space "}"'
        rule = f'"{{" space {_listed([members[one] for one in needed])}'
        if optional:
            choices = " | ".join(
                self._optional(optional[at:], members, name, first=True)
                for at in range(len(optional))
            )
            rule += f' ( "," space ( {choices} ) )?' if needed else f" ({choices} )?"
        return f'{rule} space "}}"'

    def _additional(self, node: Node, names: Sequence[str], stem: str) -> str:
        if isinstance(node, AnyValue):
            value = self.rules.add_primitive("value")
        else:
            value = self._visit(node, f"{stem}-value")
        if names:
            key = self.rules.add(f"{stem}-k", self._other_than(names))
        else:
            key = self.rules.add_primitive("string")
        return self.rules.add(f"{stem}-kv", f'{key} ":" space {value}')

    def _optional(
        self, keys: Sequence[str], members: dict[str, str], name: str, *, first: bool
    ) -> str:
        """The first of `keys`, which is there, or after others may be; then the rest."""
        key, *rest = keys
        more = f'( "," space {members[key]} )'
        if first:
            rule = members[key] + (f" {more}*" if key == "*" else "")
        else:
            rule = more + ("*" if key == "*" else "?")
        if rest:
            rule += " " + self.rules.add(
                _below(name, f"{key}-rest"), self._optional(rest, members, name, first=False)
            )
        return rule

    def _other_than(self, names: Sequence[str]) -> str:
        """A JSON string that is none of `names`."""
        character = self.rules.add_primitive("char")

        def alternatives(endings: set[str]) -> str:
            parts = []
            firsts = sorted({ending[0] for ending in endings if ending})
            for one in firsts:
                below = {ending[1:] for ending in endings if ending.startswith(one)}
                if below == {""}:
                    parts.append(f"[{one}] {character}+")
                else:
                    parts.append(f"[{one}] ({alternatives(below)})")
            if firsts:
                parts.append(f'[^"{"".join(firsts)}] {character}*')
            return " | ".join(parts)

        may_be_empty = "" if "" in names else "?"
        return f'["] ( {alternatives(set(names))} ){may_be_empty} ["]'


def _below(name: str, part: str) -> str:
    return f"{name}-{part}" if name else part


def _listed(rules: Sequence[str]) -> str:
    return ' "," space '.join(rules)
