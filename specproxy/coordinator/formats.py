"""From `grammar`, `json_schema` and `response_format` to one GBNF grammar.

Source: `oaicompat_chat_params_parse` (tools/server/server-common.cpp) and the fields of native
requests (tools/server/server-schema.cpp) of llama.cpp.
"""

import logging
from collections.abc import Mapping
from typing import Any

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.errors import RequestError

_log = logging.getLogger(__name__)


def grammar_for(body: Mapping[str, Any]) -> str:
    """The grammar that a request other than chat asks for; empty: none.

    Raises:
        RequestError: contradicting or unsupported; the message names the part.
    """
    schema = schema_of(body)
    if schema is None:
        return plain_grammar_of(body)
    converter = SchemaConverter()
    converter.add(schema)
    report(converter)
    return converter.rules.text()


def schema_of(body: Mapping[str, Any]) -> Any | None:
    """The JSON schema that an answer must follow; None: none.

    Raises:
        RequestError: contradicting or malformed.
    """
    schema = body.get("json_schema")
    if schema is not None and plain_grammar_of(body):
        raise RequestError(
            "`json_schema` and `grammar` exclude each other.", remedy="Send one of them."
        )
    form = body.get("response_format")
    if form is not None:
        schema = _schema_of_format(form, schema)
        if schema is not None and plain_grammar_of(body):
            raise RequestError(
                "`response_format` and `grammar` exclude each other.", remedy="Send one of them."
            )
    return {"type": "object"} if schema == {} else schema


def plain_grammar_of(body: Mapping[str, Any]) -> str:
    """`grammar` as it was sent; empty: none.

    Raises:
        RequestError: it is no text.
    """
    grammar = body.get("grammar")
    if grammar is None:
        return ""
    if not isinstance(grammar, str):
        raise RequestError("`grammar` must be a string.", remedy="Send the grammar as GBNF.")
    return grammar


def report(converter: SchemaConverter) -> None:
    """Log what a grammar leaves open, as llama-server does."""
    for warning in converter.warnings:
        _log.warning("JSON schema: %s", warning)


def _schema_of_format(form: Any, schema: Any | None) -> Any | None:
    if not isinstance(form, Mapping):
        raise RequestError(
            "`response_format` must be an object.", remedy='For JSON send {"type": "json_object"}.'
        )
    kind = form.get("type") or "text"
    if kind == "text":
        return schema
    if kind == "json_object":
        return form.get("schema", {}) if "schema" in form or not schema else schema
    if kind == "json_schema":
        wrapper = form.get("json_schema")
        found = wrapper.get("schema", {}) if isinstance(wrapper, Mapping) else None
        if found is None:
            raise RequestError(
                "`response_format.json_schema.schema` is missing.",
                remedy="Put the schema there.",
            )
        return found
    raise RequestError(
        f"`response_format.type` {kind} is not known.",
        remedy="Use text, json_object or json_schema.",
    )
