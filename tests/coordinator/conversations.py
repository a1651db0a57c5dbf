"""Chat requests of all shapes, for comparisons with llama-server."""

from typing import Any

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "A place, <e.g.> München"},
                "unit": {"type": "string", "enum": ["c", "f"]},
            },
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def called(*cities: str, content: Any = None) -> dict[str, Any]:
    calls = [
        {
            "id": f"abcdefgh{number}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'},
        }
        for number, city in enumerate(cities)
    ]
    return assistant(content, tool_calls=calls)


def result(content: str, number: int = 0) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": f"abcdefgh{number}"}


PARTS = [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]
WITHOUT_TOOLS: list[dict[str, Any]] = [
    {"messages": [user("Hello")]},
    {"messages": [system("Be brief."), user("Hello")]},
    {"messages": [system("Be brief."), user("Hi"), assistant("Hello!"), user("  <How>? \n")]},
    {"messages": [user(PARTS)]},
    {"messages": [system(PARTS), user("x")]},
    {"messages": [{"role": "developer", "content": "Rules"}, user("x")]},
    {"messages": [user("Hi"), assistant("I think that")]},
    {"messages": [user("Hi"), assistant(PARTS)]},
    {"messages": [system("s"), user("Hi"), assistant("So", reasoning_content="A thought")]},
    {"messages": [user("Hi"), assistant("", reasoning_content="A thought")]},
    {"messages": [user("Hi")], "add_generation_prompt": False},
    {
        "messages": [user("Hi"), assistant("So")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
    {"messages": [user("Hi"), assistant("So")], "continue_final_message": True},
    {"messages": [user("a"), assistant("b", reasoning_content="thinking b"), user("c")]},
    {"messages": [user("a")], "chat_template_kwargs": {"enable_thinking": False}},
    {"messages": [user("a")], "reasoning_effort": "high"},
    {"messages": [user("a")], "reasoning_effort": "none"},
    {"messages": [user("a"), assistant("b"), user("c"), assistant("d"), user("日本語 é\n\n🙂")]},
    {"messages": [user("Weather?")], "tools": [WEATHER], "tool_choice": "none"},
    {"messages": [user("Weather?"), called("Paris"), result("rainy"), assistant("It rains.")]},
    {"messages": [user("x"), assistant("a"), assistant("b")]},
    {"messages": [user(7)]},
    {"messages": [{"role": "user"}]},
    {"messages": [{"content": "x"}]},
    {"messages": [user([{"type": "image_url", "image_url": {"url": "data:,"}}])]},
    {"messages": "Hello"},
]
WITH_TOOLS: list[dict[str, Any]] = [
    {"messages": [user("Weather?")], "tools": [WEATHER]},
    {"messages": [system("Sys"), user("Weather?")], "tools": [WEATHER, ADD]},
    {"messages": [user("Weather?"), called("Köln"), result("rainy")], "tools": [WEATHER]},
    {
        "messages": [
            user("Weather?"),
            called("Paris", "Rom", content="Let me see."),
            result("rainy"),
            result('{"t": 3}', 1),
        ],
        "tools": [WEATHER, ADD],
    },
    {
        "messages": [
            user("Weather?"),
            called("Paris"),
            result("rainy"),
            assistant("It rains."),
            user('Thanks 🙂 "quote"'),
        ],
        "tools": [WEATHER],
    },
    {"messages": [user("Weather?"), called("Paris")], "tools": [WEATHER]},
    {"messages": [user("x")], "tools": [{"type": "code"}]},
]
