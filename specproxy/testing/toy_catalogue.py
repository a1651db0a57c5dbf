"""Requests that need a model which calls tools, or one that rounds nothing: for the toy."""

import base64
import itertools
from collections.abc import Iterator

from specproxy.testing.catalogue import parts, said
from specproxy.testing.exchange import Exchange, Json

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("weather", "clock")
]
CALL: Json = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": "{}"},
}


BODIES: list[Json] = [
    *(
        {"messages": [said("user", "call")], "tools": TOOLS, **more}
        for more in (
            {},
            {"parallel_tool_calls": True, "max_tokens": 60},
            {"max_tokens": 12},
            {"n": 2},
        )
    ),
    {
        "messages": [
            said("user", "Hi"),
            said("assistant", None, tool_calls=[CALL]),
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
        "tools": TOOLS,
    },
    {
        "messages": [
            said(
                "user",
                [
                    *parts("See"),
                    {
                        "type": "image_url",
                        "image_url": {
                            "url": "data:image/png;base64," + base64.b64encode(PIXEL).decode()
                        },
                    },
                ],
            )
        ]
    },
    {
        "messages": [
            said("user", [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}])
        ]
    },
    {"messages": [said("user", [{"type": "odd"}])]},
    {
        "messages": [said("user", "Hi")],
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    },
    *(
        {"messages": [said("user", "Hi")], "temperature": heat, "seed": seed}
        for heat in (0.7, 1.2)
        for seed in (1, 42)
    ),
    {"messages": [said("user", "Hi")], "n": 2, "temperature": 1, "seed": 3},
]
"""Chats that need a model that can do it, or one that rounds nothing: for the toy."""


def toy_exchanges() -> Iterator[Exchange]:
    """`BODIES` as exchanges, streamed and not, chat and messages."""
    for body, stream in itertools.product(BODIES, (True, False)):
        chat = {"max_tokens": 40, "temperature": 0, **body, "stream": stream}
        yield Exchange("POST", "/v1/chat/completions", chat)
    tools: list[Json] = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in TOOLS
    ]
    called = {"messages": [said("user", "call")], "temperature": 0, "max_tokens": 60}
    for stream in (True, False):
        yield Exchange("POST", "/v1/messages", {**called, "tools": tools, "stream": stream})
        flat = [{"type": "function", **tool["function"]} for tool in TOOLS]
        body = {"input": "call", "temperature": 0, "max_output_tokens": 60}
        yield Exchange("POST", "/v1/responses", {**body, "tools": flat, "stream": stream})
