"""A request's `messages` and `tools`, checked and brought into the one shape templates get.

Source: `common_chat_msgs_parse_oaicompat` and its neighbours in llama.cpp (common/chat.cpp); as
there, unknown keys are dropped, and keys have a fixed order, for templates print them.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from specproxy.errors import RequestError

Message = dict[str, Any]


def read_messages(messages: Any) -> list[Message]:
    """Messages as a template gets them; `content` is a string or a list of text parts.

    Raises:
        RequestError: a message has a shape that chat does not know.
    """
    if not isinstance(messages, list):
        raise RequestError("`messages` must be an array.", remedy="Send a list of messages.")
    return [_read_message(message, f"messages[{at}]") for at, message in enumerate(messages)]


def read_tools(tools: Any) -> list[dict[str, Any]]:
    """Function tools as a template gets them; empty when there are none.

    Raises:
        RequestError: it is no list of function tools.
    """
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise RequestError("`tools` must be an array.", remedy="Send a list of function tools.")
    return [_read_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]


def joined_text(content: str | list[dict[str, Any]], separator: str = "\n") -> str:
    """A message's content as one text: its parts, by default a line break between them."""
    if isinstance(content, str):
        return content
    return separator.join(part["text"] for part in content)


def _read_message(message: Any, where: str) -> Message:
    if not isinstance(message, Mapping):
        _refuse(where, "must be an object", "Give it a role and a content.")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        _refuse(f"{where}.role", "must be a string", "Use system, user, assistant or tool.")
    if "content" not in message and (role != "assistant" or "tool_calls" not in message):
        _refuse(where, "has no `content`", "Only an assistant's tool calls may come without.")
    read: Message = {
        "role": role,
        "content": _read_content(message.get("content"), f"{where}.content"),
    }
    for key in ("reasoning_content", "name", "tool_call_id"):
        value = message.get(key)
        if value is not None and not isinstance(value, str):
            _refuse(f"{where}.{key}", "must be a string", "Leave it out if there is none.")
        if value:
            read[key] = value
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        _refuse(f"{where}.tool_calls", "must be an array", "Leave it out if there are none.")
    if calls:
        read["tool_calls"] = [
            _read_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(calls)
        ]
    return read


def _read_content(content: Any, where: str) -> str | list[dict[str, Any]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        _refuse(where, "must be a string or an array of parts", "Send text.")
    parts = []
    for at, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            _refuse(
                f"{where}[{at}]",
                f"is of type {kind}, and only text is supported here",
                "Send text parts; images and audio need a llama-server target.",
            )
        text = part.get("text")
        if not isinstance(text, str):
            _refuse(f"{where}[{at}].text", "must be a string", "Send the part's text.")
        parts.append({"type": "text", "text": text})
    return parts or ""


def _read_call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or call.get("type") != "function":
        _refuse(where, "must be a call of a function", 'It needs `"type": "function"`.')
    name = function.get("name")
    if not isinstance(name, str):
        _refuse(f"{where}.function.name", "must be a string", "Name the called function.")
    if "arguments" not in function:
        _refuse(f"{where}.function", "has no `arguments`", "Send them as JSON text.")
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    read = {"type": "function", "function": {"name": name, "arguments": arguments}}
    identity = call.get("id")
    if identity is not None and not isinstance(identity, str):
        _refuse(f"{where}.id", "must be a string", "Send the id that the answer gave.")
    if identity:
        read["id"] = identity
    return read


def _read_tool(tool: Any, where: str) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or tool.get("type") != "function":
        _refuse(where, "must be a function tool", 'It needs `"type": "function"`.')
    name = function.get("name")
    if not isinstance(name, str) or not name:
        _refuse(f"{where}.function.name", "must be a string", "Name the function.")
    description = function.get("description")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        _refuse(f"{where}.function.parameters", "must be a JSON schema", "Send an object.")
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description if isinstance(description, str) else "",
            "parameters": parameters if parameters is not None else {},
        },
    }


def _refuse(where: str, what: str, remedy: str) -> NoReturn:
    raise RequestError(f"`{where}` {what}.", remedy=remedy)
