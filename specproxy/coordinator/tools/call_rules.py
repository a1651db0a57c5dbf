"""Rules that the call grammars of several formats share.

Source: the grammars that llama-server makes of the same templates; the languages are the same.
"""

from collections.abc import Sequence

from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.schema.rules import literal
from specproxy.coordinator.tools.protocol import Tool


def add_arguments(converter: SchemaConverter, tool: Tool) -> str:
    """Add the arguments of `tool`; the rule's name.

    Raises:
        RequestError: no grammar says its parameters' schema.
    """
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return converter.add(parameters, f"tool-{function['name']}-schema")


def add_json_calls(
    converter: SchemaConverter,
    tools: Sequence[Tool],
    *,
    arguments_key: str = "arguments",
    before: str = "",
    after: str = "",
) -> str:
    """Add `{"name": ..., "arguments": ...}` for each of `tools`; an expression of all of them.

    Args:
        before: more rules at the object's beginning, followed by a space.
        after: at its end, led by a space.
    """
    names = []
    for tool in tools:
        name = tool["function"]["name"]
        arguments = add_arguments(converter, tool)
        rule = (
            rf'"{{" space {before}"\"name\"" space ":" space ("\"" {literal(name)} "\"") space '
            rf'"," space "\"{arguments_key}\"" space ":" space {arguments}{after} space "}}"'
        )
        names.append(converter.rules.add(f"tool-{name}", rule))
    return f"({' | '.join(names)})"
