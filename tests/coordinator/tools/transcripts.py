"""Answers as models of each family write them, and the messages that they are."""

from dataclasses import dataclass, field

from specproxy.coordinator.tools.harmony import HarmonyFormat
from specproxy.coordinator.tools.hermes import HermesFormat
from specproxy.coordinator.tools.llama3 import Llama3Format
from specproxy.coordinator.tools.mistral import MistralFormat
from specproxy.coordinator.tools.protocol import Tool, ToolFormat

WEATHER: Tool = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}},
            "required": ["city"],
        },
    },
}
ADD: Tool = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    },
}
TOOLS = (WEATHER, ADD)
HERMES, LLAMA3, HARMONY = HermesFormat(), Llama3Format(), HarmonyFormat()
MISTRAL = MistralFormat()


@dataclass(frozen=True)
class Transcript:
    """Attributes:
    calls: name and arguments.
    """

    name: str
    format: ToolFormat
    text: str
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    parallel: bool = True
    tool_choice: str = "auto"


PARIS = ("get_weather", '{"city": "Paris"}')
NASTY = '{"city": "a } ] \\" { [ \\\\", "unit": "c", "deep": {"x": [1, {"y": "\\u00e9 </tool"}]}}'
_HERMES_NASTY = f'<tool_call>\n{{"name": "get_weather", "arguments": {NASTY}}}\n</tool_call>'

TRANSCRIPTS = [
    Transcript(
        "hermes plain", HERMES, "It is <b>sunny</b> {today}.", "It is <b>sunny</b> {today}."
    ),
    Transcript(
        "hermes one call",
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        calls=[PARIS],
    ),
    Transcript(
        "hermes text and two calls",
        HERMES,
        "Let me look.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": -2}}\n</tool_call>\n',
        "Let me look.\n",
        calls=[PARIS, ("add", '{"a": 1, "b": -2}')],
    ),
    Transcript(
        "hermes two calls in one tag",
        HERMES,
        '<tool_call>\n{"name": "add", "arguments": {}}, '
        '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        calls=[("add", "{}"), PARIS],
    ),
    Transcript(
        "hermes arguments first",
        HERMES,
        '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>',
        calls=[PARIS],
    ),
    Transcript(
        "hermes arguments as text",
        HERMES,
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>',
        calls=[PARIS],
    ),
    Transcript("hermes nested", HERMES, _HERMES_NASTY, calls=[("get_weather", NASTY)]),
    Transcript(
        "hermes unicode",
        HERMES,
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Köln 🙂 \\ud83d\\ude42"}}'
        "</tool_call>",
        calls=[("get_weather", '{"city": "Köln 🙂 \\ud83d\\ude42"}')],
    ),
    Transcript(
        "hermes text after",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>\n\nDone <tool.',
        "\n\nDone <tool.",
        calls=[("add", '{"a": 1}')],
    ),
    Transcript(
        "hermes cut in arguments",
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par',
        calls=[("get_weather", '{"city": "Par')],
    ),
    Transcript(
        "hermes cut in closing tag",
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_c',
        calls=[PARIS],
    ),
    Transcript(
        "hermes cut before the name is known",
        HERMES,
        'Hm <tool_call>\n{"name": "get_wea',
        'Hm <tool_call>\n{"name": "get_wea',
    ),
    Transcript(
        "hermes unknown function",
        HERMES,
        '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>',
    ),
    Transcript(
        "hermes no JSON",
        HERMES,
        "<tool_call>\nget_weather(Paris)\n</tool_call>",
        "<tool_call>\nget_weather(Paris)\n</tool_call>",
    ),
    Transcript(
        "hermes broken in arguments",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {"a": 1,, "b": 2}}</tool_call>',
        ', "b": 2}}</tool_call>',
        calls=[("add", '{"a": 1,')],
    ),
    Transcript(
        "hermes one call only",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
        '<tool_call>{"name": "add", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {}}</tool_call>',
        calls=[("add", "{}")],
        parallel=False,
    ),
    Transcript(
        "llama bare",
        LLAMA3,
        '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        calls=[PARIS],
    ),
    Transcript(
        "llama tagged",
        LLAMA3,
        '<|python_tag|>{"type": "function", "name": "get_weather", '
        '"parameters": {"city": "Paris"}}',
        calls=[PARIS],
    ),
    Transcript(
        "llama two calls",
        LLAMA3,
        '{"name": "get_weather", "parameters": {"city": "Paris"}}; '
        '{"name": "add", "parameters": {"a": 1}}\n{"name": "add", "parameters": {}}',
        calls=[PARIS, ("add", '{"a": 1}'), ("add", "{}")],
    ),
    Transcript(
        "llama text before",
        LLAMA3,
        'I will call:\n\n{"name": "get_weather", "parameters": {"city": "Paris"}}',
        "I will call:\n\n",
        calls=[PARIS],
    ),
    Transcript(
        "llama JSON that is no call",
        LLAMA3,
        'Like this:\n{"city": "Paris", "name": "x"} and {"name": "add", "parameters": {}}',
        'Like this:\n{"city": "Paris", "name": "x"} and {"name": "add", "parameters": {}}',
    ),
    Transcript(
        "llama within a line when it has to call",
        LLAMA3,
        'Sure: {"name": "add", "parameters": {"a": 1}}',
        "Sure: ",
        calls=[("add", '{"a": 1}')],
        tool_choice="required",
    ),
    Transcript("llama code", LLAMA3, "<|python_tag|>print('{')", "<|python_tag|>print('{')"),
    Transcript(
        "llama cut",
        LLAMA3,
        '{"name": "get_weather", "parameters": {"city": "P',
        calls=[("get_weather", '{"city": "P')],
    ),
    Transcript(
        "mistral list",
        MISTRAL,
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, '
        '{"name": "add", "arguments": {"a": 1}, "id": "abcdefghi"}]',
        calls=[PARIS, ("add", '{"a": 1}')],
    ),
    Transcript(
        "mistral spaced list after text",
        MISTRAL,
        'Well [so].[TOOL_CALLS] [ {"name": "add", "arguments": {"a": 1}} ]',
        "Well [so].",
        calls=[("add", '{"a": 1}')],
    ),
    Transcript(
        "mistral comma without an id",
        MISTRAL,
        '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}, }]',
        calls=[("add", '{"a": 1}')],
    ),
    Transcript(
        "mistral names first",
        MISTRAL,
        'Ok.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]add[ARGS]{"a": 1}',
        "Ok.",
        calls=[PARIS, ("add", '{"a": 1}')],
    ),
    Transcript(
        "mistral call id",
        MISTRAL,
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "Paris"}',
        calls=[PARIS],
    ),
    Transcript(
        "mistral name and brace",
        MISTRAL,
        '[TOOL_CALLS]get_weather{"city": "Paris"}',
        calls=[PARIS],
    ),
    Transcript(
        "mistral unknown name",
        MISTRAL,
        "[TOOL_CALLS]rm[ARGS]{} or [TOOL_CALLS]",
        "[TOOL_CALLS]rm[ARGS]{} or [TOOL_CALLS]",
    ),
    Transcript("mistral cut", MISTRAL, '[TOOL_CALLS]add[ARGS]{"a": 1', calls=[("add", '{"a": 1')]),
    Transcript(
        "gpt-oss answer",
        HARMONY,
        "<|channel|>analysis<|message|>Think <of> it.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>It is < 5 | 6.",
        "It is < 5 | 6.",
        "Think <of> it.",
    ),
    Transcript(
        "gpt-oss call",
        HARMONY,
        "<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris"}<|call|>',
        reasoning="Need weather.",
        calls=[PARIS],
    ),
    Transcript(
        "gpt-oss recipient in the role",
        HARMONY,
        "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant"
        ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}',
        "I look it up.",
        calls=[PARIS],
    ),
    Transcript(
        "gpt-oss two calls",
        HARMONY,
        '<|channel|>commentary to=functions.add<|message|>{"a": 1}<|call|>'
        '<|start|>assistant<|channel|>commentary to=functions.add<|message|>{"a": 2}<|call|>',
        calls=[("add", '{"a": 1}'), ("add", '{"a": 2}')],
    ),
    Transcript(
        "gpt-oss cut reasoning",
        HARMONY,
        "<|channel|>analysis<|message|>Hm, <|en",
        reasoning="Hm, <|en",
    ),
    Transcript("gpt-oss without channels", HARMONY, "Hello there", "Hello there"),
    Transcript(
        "gpt-oss broken arguments",
        HARMONY,
        '<|channel|>commentary to=functions.add<|message|>{"a": x}<|call|>',
        "x}",
        calls=[("add", '{"a": ')],
    ),
]
