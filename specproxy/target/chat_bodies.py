"""The chat request that the target makes of a responses or messages request, for its prompt.

Only the draft's view of the prompt hangs on it: where the target converts otherwise (see
server_chat_convert_responses_to_chatcmpl and server_chat_convert_anthropic_to_oai in llama.cpp's
tools/server/server-chat.cpp), drafts are worse and answers the same.
"""

import json
from collections.abc import Mapping
from typing import Any

from specproxy.target.deltas import Json, Kind

_KEPT = ("chat_template_kwargs", "reasoning_effort", "tool_choice", "parallel_tool_calls")


def chat_of(kind: Kind, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The body of a chat request with the same prompt; None if it has no messages."""
    if kind == "chat":
        return body if isinstance(body.get("messages"), list) else None
    if kind == "messages":
        return _of_messages(body)
    if kind == "responses":
        return _of_responses(body)
    return None


def _of_messages(body: Mapping[str, Any]) -> Json | None:
    given = body.get("messages")
    if not isinstance(given, list):
        return None
    messages: list[Json] = []
    if body.get("system") is not None:
        messages.append({"role": "system", "content": _joined(body["system"], "")})
    for message in given:
        if not isinstance(message, dict):
            return None
        messages += _of_message(message)
    tools = [
        {"name": tool.get("name"), "description": tool.get("description", "")}
        | {"parameters": tool.get("input_schema", {})}
        for tool in _objects(body.get("tools"))
    ]
    return _chat(body, messages, tools)


def _of_message(message: Json) -> list[Json]:
    """One message of Anthropic's as those of a chat: calls and results are apart there."""
    content = message.get("content")
    if not isinstance(content, list):
        return [message]
    parts: list[Json] = []
    calls: list[Json] = []
    results: list[Json] = []
    for block in _objects(content):
        match block.get("type"):
            case "tool_use":
                arguments = json.dumps(block.get("input", {}))
                calls.append(_call(block.get("id"), block.get("name"), arguments))
            case "tool_result":
                told = _joined(block.get("content"), "\n")
                results.append(_result(block.get("tool_use_id"), told))
            case "thinking":
                continue
            case _:
                parts.append(block)
    message = {"role": message.get("role"), "content": parts or None}
    if calls:
        return [{**message, "tool_calls": calls}, *results]
    return [message, *results] if parts or not results else results


def _of_responses(body: Mapping[str, Any]) -> Json | None:
    given = body.get("input")
    messages: list[Json] = []
    if isinstance(body.get("instructions"), str):
        messages.append({"role": "system", "content": body["instructions"]})
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    elif isinstance(given, list):
        for item in given:
            if not isinstance(item, dict):
                return None
            messages += _of_item(item)
    else:
        return None
    tools = [tool for tool in _objects(body.get("tools")) if tool.get("type") == "function"]
    return _chat(body, messages, [{k: v for k, v in tool.items() if k != "type"} for tool in tools])


def _of_item(item: Json) -> list[Json]:
    match item.get("type", "message"):
        case "message":
            content = item.get("content")
            if isinstance(content, list):
                content = [
                    {**part, "type": "text"} if str(part.get("type")).endswith("_text") else part
                    for part in _objects(content)
                ]
            return [{"role": item.get("role"), "content": content}]
        case "function_call":
            call = _call(item.get("call_id"), item.get("name"), str(item.get("arguments")))
            return [{"role": "assistant", "content": None, "tool_calls": [call]}]
        case "function_call_output":
            return [_result(item.get("call_id"), _joined(item.get("output"), "\n"))]
        case _:
            return []


def _chat(body: Mapping[str, Any], messages: list[Json], tools: list[Json]) -> Json:
    chat: Json = {"messages": messages, **{key: body[key] for key in _KEPT if key in body}}
    if isinstance(chat.get("tool_choice"), dict):
        chat["tool_choice"] = "auto" if chat["tool_choice"].get("type") == "auto" else "required"
    if tools:
        chat["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return chat


def _call(id_: object, name: object, arguments: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(id_: object, said: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": said}


def _joined(content: object, separator: str) -> str:
    if isinstance(content, str):
        return content
    return separator.join(str(block.get("text", "")) for block in _objects(content))


def _objects(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
