"""From a schema's JSON to nodes; what a grammar cannot say is refused with its place."""

import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

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
    StringFormat,
    Tuple,
)
from specproxy.errors import RequestError

_UUID = re.compile(r"uuid[1-5]?")
_MAX_DEPTH = 128
_FORMATS: dict[str, StringFormat] = {"date": "date", "time": "time", "date-time": "date-time"}
_STRING_KEYS = ("pattern", "minLength", "maxLength")


def read_schema(schema: Any) -> Node:
    """The nodes of `schema`.

    Raises:
        RequestError: it is malformed, or asks for what no grammar can say; the place is named.
    """
    return _Reader(schema).read()


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._targets: dict[str, Node | None] = {}
        self._references: list[Reference] = []
        self._depth = 0

    def read(self) -> Node:
        node = self._node(self._root, "#")
        for reference in self._references:
            reference.target = self._targets[reference.ref]
        return node

    def _node(self, schema: Any, path: str) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            _fail(path, "it is nested too deeply")
        node = self._node_of(schema, path)
        self._depth -= 1
        return node

    def _node_of(self, schema: Any, path: str) -> Node:
        if not isinstance(schema, Mapping):
            _fail(path, "a schema must be an object")
        if "$ref" in schema:
            return self._reference(schema["$ref"], path)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return AnyOf(self._alternatives(schema[key], f"{path}/{key}"))
        kind = schema.get("type")
        if isinstance(kind, list):
            if not kind:
                _fail(path, "type must not be empty")
            return AnyOf(
                [
                    self._node({**schema, "type": one}, f"{path}/type/{at}")
                    for at, one in enumerate(kind)
                ]
            )
        if "const" in schema:
            return Constant(schema["const"])
        if "enum" in schema:
            if not isinstance(schema["enum"], list) or not schema["enum"]:
                _fail(path, "enum must be a non-empty array")
            return Enumeration(schema["enum"])
        if kind is not None and not isinstance(kind, str):
            _fail(path, "type must be a string or an array of strings")
        return self._typed(schema, path, kind or "")

    def _typed(self, schema: Mapping[str, Any], path: str, kind: str) -> Node:
        has_members = "properties" in schema or schema.get("additionalProperties", True) is not True
        has_items = "items" in schema or "prefixItems" in schema
        if "allOf" in schema and (kind == "string" or (kind in ("", "object") and not has_members)):
            return AllOf(self._alternatives(schema["allOf"], f"{path}/allOf"))
        if kind == "object" or (not kind and has_members):
            return self._object(schema, path)
        if kind == "array" or (not kind and has_items):
            return self._array(schema, path)
        if kind == "string" or (
            not kind
            and (any(key in schema for key in _STRING_KEYS) or _format(schema, path) is not None)
        ):
            return String(
                _string(schema, "pattern", path),
                _format(schema, path),
                _count(schema, "minLength", path) or 0,
                _count(schema, "maxLength", path),
            )
        if kind == "integer":
            return _integer(schema, path)
        if kind in ("number", "boolean", "null"):
            return Primitive(kind)
        if kind:
            _fail(path, f"type {kind} is not known")
        return AnyValue()

    def _alternatives(self, schemas: Any, path: str) -> list[Node]:
        if not isinstance(schemas, list) or not schemas:
            _fail(path, "it must be a non-empty array of schemas")
        return [self._node(one, f"{path}/{at}") for at, one in enumerate(schemas)]

    def _reference(self, ref: Any, path: str) -> Node:
        if not isinstance(ref, str) or not ref.startswith("#/"):
            _fail(path, f"$ref {ref} does not lead into the same document, which alone is read")
        if ref not in self._targets:
            self._targets[ref] = None  # a cycle ends here
            self._targets[ref] = self._node(self._resolved(ref, path), ref)
        reference = Reference(ref)
        self._references.append(reference)
        return reference

    def _resolved(self, ref: str, path: str) -> Any:
        target = self._root
        for step in ref.split("/")[1:]:
            if isinstance(target, Mapping) and step in target:
                target = target[step]
            elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            else:
                _fail(path, f"$ref {ref} leads nowhere: there is no {step}")
        return target

    def _object(self, schema: Mapping[str, Any], path: str) -> Node:
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            _fail(path, "properties must be an object")
        required = schema.get("required")
        additional: Any = schema.get("additionalProperties", "properties" not in schema)
        if not isinstance(additional, bool | Mapping):
            _fail(path, "additionalProperties must be a boolean or a schema")
        members = {
            name: self._node(one, f"{path}/properties/{name}") for name, one in properties.items()
        }
        others: Node | None = AnyValue() if additional is True else None
        if isinstance(additional, Mapping):
            others = self._node(additional, f"{path}/additionalProperties")
        names = required if isinstance(required, list) else []
        return Object(members, frozenset(one for one in names if isinstance(one, str)), others)

    def _array(self, schema: Mapping[str, Any], path: str) -> Node:
        items: Node = AnyValue()
        for key in ("items", "prefixItems"):
            if key in schema:
                if isinstance(schema[key], list):
                    return Tuple(
                        [
                            self._node(one, f"{path}/{key}/{at}")
                            for at, one in enumerate(schema[key])
                        ]
                    )
                items = self._node(schema[key], f"{path}/{key}")
                break
        return Array(items, _count(schema, "minItems", path) or 0, _count(schema, "maxItems", path))


def _integer(schema: Mapping[str, Any], path: str) -> Integer:
    node = Integer()
    if "minimum" in schema:
        node.minimum = math.ceil(_number(schema, "minimum", path))
    elif "exclusiveMinimum" in schema:
        node.minimum = math.floor(_number(schema, "exclusiveMinimum", path)) + 1
    if "maximum" in schema:
        node.maximum = math.floor(_number(schema, "maximum", path))
    elif "exclusiveMaximum" in schema:
        node.maximum = math.ceil(_number(schema, "exclusiveMaximum", path)) - 1
    return node


def _number(schema: Mapping[str, Any], key: str, path: str) -> float:
    value = schema[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _fail(path, f"{key} must be a number")
    return value


def _count(schema: Mapping[str, Any], key: str, path: str) -> int | None:
    value = schema.get(key)
    if key not in schema:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _fail(path, f"{key} must be a non-negative integer")
    return value


def _string(schema: Mapping[str, Any], key: str, path: str) -> str:
    value = schema.get(key, "")
    if not isinstance(value, str):
        _fail(path, f"{key} must be a string")
    return value


def _format(schema: Mapping[str, Any], path: str) -> StringFormat | None:
    name = _string(schema, "format", path)
    return "uuid" if _UUID.fullmatch(name) else _FORMATS.get(name)


def _fail(path: str, what: str) -> NoReturn:
    raise RequestError(
        f"The JSON schema cannot be followed: at {path}, {what}.",
        remedy="Change that part of the schema.",
    )
