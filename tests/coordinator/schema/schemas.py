"""Schemas of all kinds, for comparisons with llama-server."""

from typing import Any

INTEGER_BOUNDS: list[dict[str, float]] = [
    *({"minimum": bound} for bound in (0, 1, 7, 10, 25, 987, -12)),
    *({"maximum": bound} for bound in (0, 9, 1234, -3)),
    *({"minimum": low, "maximum": high} for low, high in ((-5, 30), (0, 100), (15, 300))),
    *({"minimum": low, "maximum": high} for low, high in ((-123, -42), (5, 5), (1234, 5678))),
    {"exclusiveMinimum": 0, "exclusiveMaximum": 11},
    {"minimum": 1.5, "maximum": 9.5},
]
PATTERNS = [
    *(r"^[a-z]+$", r"^\d+$", r"^(\([0-9]{1,3}\))?[0-9]{3}-[0-9]{4}$", r"^a.b*c?$", r"abc"),
    *(r"^(foo|bar){2,3}$", r"^(?=x)y$", r"^[\\w]$", r"^x\.y\-z$", r"^(ab)+c{3}$", '^"q"$'),
    *(r"^(?:a|b)c*$", r"^[^\n\t]{0,5}$", r"^a{,3}b{2,}$"),
]
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["v"],
}
ITEM = {
    "type": "object",
    "properties": {"n": {"type": "string"}, "q": {"type": "integer", "minimum": 1}},
    "required": ["n", "q"],
}
SCHEMAS: list[dict[str, Any]] = [
    {},
    *({"type": one} for one in ("object", "string", "integer", "number", "boolean", "null")),
    {"type": "array"},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}},
        "required": ["a", "c"],
        "additionalProperties": False,
    },
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}, "ab": {"enum": [1]}}},
    {
        "properties": {"and": {"type": "integer"}, "also": {"type": "string"}},
        "required": ["also"],
        "additionalProperties": True,
    },
    {
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    },
    {"additionalProperties": {"type": "integer"}},
    {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
    {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    {"type": "array", "prefixItems": [{"type": "string"}, {"enum": [1, 2]}]},
    {"enum": ["red", 'gr"een', 3, None, {"a": [1, 2.5]}, "back\\slash", "münchen"]},
    {"const": 'a "quoted" \n thing'},
    {"oneOf": [{"type": "string"}, {"properties": {"k": {"const": 1}}, "required": ["k"]}]},
    {"type": ["string", "null"]},
    *({"type": "integer", **bounds} for bounds in INTEGER_BOUNDS),
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "minLength": 1},
    *({"type": "string", "format": one} for one in ("date", "time", "date-time", "uuid", "x")),
    *({"type": "string", "pattern": pattern} for pattern in PATTERNS),
    {
        "allOf": [
            {"$ref": "#/definitions/foo"},
            {"anyOf": [{"$ref": "#/definitions/bar"}, {"properties": {"b": {"type": "null"}}}]},
        ],
        "definitions": {
            "foo": {"properties": {"a": {"type": "number"}}},
            "bar": {"properties": {"c": {"type": "number"}}},
        },
    },
    {"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["b", "c", "d"]}]},
    {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    {
        "type": "object",
        "properties": {
            "string": {"type": "string"},
            "root": {"type": "integer"},
            "x y": {"type": "object", "properties": {"é": {"type": "string"}}},
        },
        "required": ["string"],
    },
    {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}},
]
REFUSED: list[tuple[Any, str]] = [
    ({"type": "what"}, "at #, type what"),
    ({"properties": {"a": {"type": "what"}}}, "at #/properties/a, type what"),
    ({"$ref": "http://example.com/x.json"}, "does not lead into the same document"),
    ({"$ref": "#/nope"}, "there is no nope"),
    ({"enum": []}, "non-empty"),
    ({"type": "string", "pattern": "^(a$"}, "malformed"),
    ({"type": "string", "pattern": "^*$"}, "nothing to repeat"),
    ({"type": "array", "minItems": -1}, "minItems"),
    ({"properties": []}, "properties must be an object"),
    ({"oneOf": {}}, "at #/oneOf"),
    ([], "must be an object"),
]
