"""Formats off templates; reasoning and structured answers; what a request's plan is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.coordinator.answer_format import AnswerFormat
from specproxy.coordinator.tools.protocol import ToolParser
from specproxy.errors import RequestError
from tests.coordinator.tools.test_parsers import Message, read
from tests.coordinator.tools.transcripts import ADD, TOOLS

TEMPLATES = Path(__file__).parent / "templates"
FORMATS = {
    name: AnswerFormat.of((TEMPLATES / f"{name}.jinja").read_text())
    for name in ("hermes", "thinking", "llama3", "mistral", "no_system", "harmony")
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
QWEN3 = AnswerFormat.of(
    (TEMPLATES / "thinking.jinja").read_text() + "{# <tool_call></tool_call> #}"
)
NAMED = {"type": "function", "function": {"name": "add"}}


def test_detection() -> None:
    names = {name: one.tools and one.tools.name for name, one in FORMATS.items()}
    assert names == {
        "hermes": "hermes",
        "thinking": None,
        "llama3": "llama3",
        "mistral": "mistral",
        "no_system": None,
        "harmony": "gpt-oss",
    }
    assert FORMATS["thinking"].thinking == ("<think>\n", "\n</think>\n\n")


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>\nA < b.\n</think>\n\nSo {CALL}", Message("So ", "A < b.\n")),
        ("<think>\n\n</think>\n\nYes", Message("Yes")),
        ("Yes <think>no</think>", Message("Yes <think>no</think>")),
        ("<think>\ncut </thi", Message("", "cut </thi")),
        ("<thin", Message("<thin")),
        ("\n\nYes", Message("Yes")),
    ],
)
def test_reasoning(text: str, expected: Message, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    message = read(QWEN3.parser("<|im_start|>assistant\n", TOOLS), pieces)
    assert (message.content, message.reasoning) == (expected.content, expected.reasoning)
    assert bool(message.calls) == ("<tool_call>" in text)


def test_reasoning_that_the_prompt_opened() -> None:
    opened = "<|im_start|>assistant\n<think>\n"
    assert read(QWEN3.parser(opened), ["A.\n</think>\n\nB"]) == Message("B", "A.\n")
    bare = AnswerFormat(None, ("<think>", "</think>"))
    assert read(bare.parser(opened), ["A</think>B"]) == Message("B", "\nA")
    spoken = "<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n"
    assert read(QWEN3.parser(spoken), ["A tag."]) == Message("A tag.")


def test_reasoning_stays_in_the_content_when_asked_to() -> None:
    text = "<think>\nA\n</think>\n\nB"
    assert read(QWEN3.parser("", splits=False), [text]) == Message(text)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' \n```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ("```json 42 ```", "42"),
        ('"a b" ', '"a b"'),
        ("[1, 2", "[1, 2"),
        ("not JSON", "not JSON"),
        ("```js", "```js"),
    ],
)
def test_structured(text: str, content: str) -> None:
    def parser() -> ToolParser:
        return FORMATS["hermes"].parser("", structured=True)

    assert read(parser(), [text]) == Message(content)
    assert read(parser(), text) == Message(content)


@given(st.text(alphabet='`json{}[]"1 \n,:'), st.integers(1, 5))
def test_structured_is_cut_alike(text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    whole = read(FORMATS["hermes"].parser("", structured=True), [text])
    assert read(FORMATS["hermes"].parser("", structured=True), pieces) == whole


def test_plan_of_a_request_with_tools() -> None:
    plan = FORMATS["hermes"].plan("", {"tools": [ADD]})
    assert plan.grammar == ""
    assert plan.special_texts == {"<tool_call>", "</tool_call>"}
    assert read(plan.parser(), [CALL]).named_arguments == [("add", '{"a": 1}')]


def test_plan_of_plain_chat() -> None:
    assert FORMATS["hermes"].plan("", {}).special_texts == frozenset()
    assert read(FORMATS["hermes"].plan("", {}).parser(), [CALL]) == Message(CALL)
    assert "<|channel|>" in FORMATS["harmony"].plan("", {}).special_texts


def test_plan_without_calls() -> None:
    plan = FORMATS["hermes"].plan("", {"tools": [ADD], "tool_choice": "none"})
    assert read(plan.parser(), [CALL]) == Message(CALL)


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_forced_calls_have_a_grammar(choice: object) -> None:
    for name in ("hermes", "llama3", "mistral", "harmony"):
        plan = FORMATS[name].plan("", {"tools": list(TOOLS), "tool_choice": choice})
        assert '"add"' in plan.grammar
        assert ('"get_weather"' in plan.grammar) == (choice == "required")


@pytest.mark.parametrize(
    ("name", "body", "part"),
    [
        ("no_system", {"tools": [ADD]}, "not known here"),
        ("hermes", {"tools": [ADD], "tool_choice": "maybe"}, "tool_choice"),
        ("hermes", {"tools": [ADD], "tool_choice": {"function": {"name": "x"}}}, "tool_choice"),
        ("hermes", {"tool_choice": "required"}, "tools"),
        ("hermes", {"tools": [ADD], "grammar": 'root ::= "x"'}, "exclude"),
    ],
)
def test_refused(name: str, body: dict[str, object], part: str) -> None:
    with pytest.raises(RequestError, match=part):
        FORMATS[name].plan("", body)
