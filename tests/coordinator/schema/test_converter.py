"""Schemas to grammars, without llama-server."""

import json
from itertools import product
from typing import Any

import pytest

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.schema.integers import integer_range
from specproxy.errors import RequestError
from tests.coordinator.schema.schemas import REFUSED, SCHEMAS


@pytest.mark.parametrize(("schema", "part"), REFUSED, ids=lambda one: str(one)[:40])
def test_refusals_name_the_part(schema: Any, part: str) -> None:
    with pytest.raises(RequestError, match=part):
        SchemaConverter().add(schema)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda one: json.dumps(one)[:60])
def test_every_rule_that_is_used_is_there(schema: dict[str, Any]) -> None:
    converter = SchemaConverter()
    assert converter.add(schema) == "root"
    names = {line.split(" ::= ")[0] for line in converter.rules.text().splitlines()}
    assert {"root", "space"} <= names


def test_patterns_beyond_grammars_are_warned_of() -> None:
    converter = SchemaConverter()
    converter.add({"type": "string", "pattern": "^(?=x)y$"})
    assert "special kind" in converter.warnings[0]
    assert "string" in converter.rules


def test_deep_schemas_do_not_exhaust_the_stack() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(RequestError, match="too deeply"):
        SchemaConverter().add(schema)


@pytest.mark.parametrize(("low", "high"), list(product((0, 7, 10, 98), (10, 99, 123, 1005))))
def test_integer_ranges_hold_what_is_between(low: int, high: int) -> None:
    """The expression is close enough to a regular expression to be read as one."""
    if low > high:
        return
    import re

    pattern = re.compile(integer_range(low, high).replace('"', "").replace(" ", ""))
    held = {number for number in range(1200) if pattern.fullmatch(str(number))}
    assert held == set(range(low, high + 1))
