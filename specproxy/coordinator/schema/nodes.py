"""The part of JSON Schema that a grammar can say."""

from dataclasses import dataclass, field
from typing import Any, Literal

StringFormat = Literal["uuid", "date", "time", "date-time"]


@dataclass(slots=True)
class AnyValue:
    """Every JSON value."""


@dataclass(slots=True)
class Primitive:
    """`boolean`, `null` or `number`, without more."""

    type: str


@dataclass(slots=True)
class Reference:
    """Another part of the same document; `target` is there once all is read."""

    ref: str
    target: "Node | None" = None


@dataclass(slots=True)
class AnyOf:
    """`oneOf`, `anyOf`, or several types."""

    children: "list[Node]"


@dataclass(slots=True)
class AllOf:
    """`allOf`."""

    children: "list[Node]"


@dataclass(slots=True)
class Constant:
    """`const`."""

    value: Any


@dataclass(slots=True)
class Enumeration:
    """`enum`."""

    values: list[Any]


@dataclass(slots=True)
class Integer:
    """Bounds are inclusive."""

    minimum: int | None = None
    maximum: int | None = None


@dataclass(slots=True)
class String:
    """Attributes are empty or None where the schema has none."""

    pattern: str = ""
    format: StringFormat | None = None
    min_length: int = 0
    max_length: int | None = None


@dataclass(slots=True)
class Array:
    """All items alike."""

    items: "Node"
    min_items: int = 0
    max_items: int | None = None


@dataclass(slots=True)
class Tuple:
    """Each item its own schema."""

    items: "list[Node]"


@dataclass(slots=True)
class Object:
    """Members in the schema's order; `additional` is None where no others may come."""

    properties: "dict[str, Node]" = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: "Node | None" = None


Node = (
    AnyValue
    | Primitive
    | Reference
    | AnyOf
    | AllOf
    | Constant
    | Enumeration
    | Integer
    | String
    | Array
    | Tuple
    | Object
)
