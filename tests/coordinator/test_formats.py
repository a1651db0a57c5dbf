"""Which grammar a request asks for."""

from typing import Any

import pytest

from specproxy.coordinator.formats import grammar_for, schema_of
from specproxy.errors import RequestError

INTEGER = {"type": "integer"}
OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("body", "schema"),
    [
        ({}, None),
        ({"json_schema": INTEGER}, INTEGER),
        ({"json_schema": {}}, OBJECT),
        ({"response_format": None}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, OBJECT),
        ({"response_format": {"type": "json_object", "schema": INTEGER}}, INTEGER),
        ({"response_format": {"type": "json_object"}, "json_schema": INTEGER}, INTEGER),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": INTEGER}}},
            INTEGER,
        ),
    ],
)
def test_schema(body: dict[str, Any], schema: Any) -> None:
    assert schema_of(body) == schema
    assert bool(grammar_for(body)) == (schema is not None)


def test_a_grammar_goes_through_as_it_is() -> None:
    assert grammar_for({"grammar": 'root ::= "x"'}) == 'root ::= "x"'


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"grammar": "root ::= [a]", "json_schema": INTEGER}, "exclude"),
        ({"grammar": "root ::= [a]", "response_format": {"type": "json_object"}}, "exclude"),
        ({"grammar": 7}, "grammar"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "xml"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"json_schema": {"type": "what"}}, "type what"),
    ],
)
def test_refused(body: dict[str, Any], part: str) -> None:
    with pytest.raises(RequestError, match=part) as caught:
        grammar_for(body)
    assert caught.value.remedy
