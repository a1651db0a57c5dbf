"""Every transcript gives the same message, however it is cut into pieces."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.coordinator.tools.protocol import (
    Content,
    Reasoning,
    ToolCallArguments,
    ToolCallStart,
    ToolParser,
)
from tests.coordinator.tools.transcripts import (
    HARMONY,
    HERMES,
    LLAMA3,
    MISTRAL,
    TOOLS,
    TRANSCRIPTS,
    Transcript,
)

FORMATS = (HERMES, LLAMA3, MISTRAL, HARMONY)


@dataclass
class Message:
    content: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)

    @property
    def named_arguments(self) -> list[tuple[str, str]]:
        return [(name, arguments) for _, name, arguments in self.calls]


def parser_of(transcript: Transcript) -> ToolParser:
    ids = (f"call{number}" for number in count())
    return transcript.format.parser(
        TOOLS, transcript.tool_choice, transcript.parallel, lambda: next(ids)
    )


def read(parser: ToolParser, pieces: Iterable[str]) -> Message:
    message = Message()
    deltas = [delta for piece in pieces for delta in parser.feed(piece)] + parser.finish()
    for delta in deltas:
        match delta:
            case Content(text):
                message.content += text
            case Reasoning(text):
                message.reasoning += text
            case ToolCallStart(index, identity, name):
                assert index == len(message.calls)
                message.calls.append([identity, name, ""])
            case ToolCallArguments(index, fragment):
                assert index == len(message.calls) - 1
                message.calls[index][2] += fragment
    return message


def pieces_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 3, 8, 64, 10_000])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda one: one.name)
def test_transcript(transcript: Transcript, size: int) -> None:
    message = read(parser_of(transcript), pieces_of(transcript.text, size))
    assert message.content == transcript.content
    assert message.reasoning == transcript.reasoning
    assert message.named_arguments == transcript.calls


@given(st.sampled_from(TRANSCRIPTS), st.lists(st.integers(1, 200), max_size=12))
def test_any_chunking(transcript: Transcript, cuts: list[int]) -> None:
    edges = sorted({0, len(transcript.text), *(cut for cut in cuts if cut < len(transcript.text))})
    pieces = [transcript.text[a:b] for a, b in pairwise(edges)]
    assert read(parser_of(transcript), pieces) == read(parser_of(transcript), [transcript.text])


STRUCTURE = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
        *("<|channel|>", "<|message|>", "<|end|>", "<|start|>assistant", "<|call|>", "final"),
        *("analysis", " to=functions.add", "add", '{"name": "add", "arguments": ', "{}", "}", "["),
        *('"parameters": ', '{"a": [1, "x}"]}', ", ", "\n", "text", "<", "[TOOL", "]", ";", '"'),
    ]
)


@given(st.sampled_from(FORMATS), st.lists(STRUCTURE, max_size=14), st.booleans())
def test_any_mixture_is_cut_alike(format_, parts: list[str], parallel: bool) -> None:  # type: ignore[no-untyped-def]
    text = "".join(parts)
    whole = Transcript("", format_, text, parallel=parallel)
    assert read(parser_of(whole), [text]) == read(parser_of(whole), text)
    assert read(parser_of(whole), [text]) == read(parser_of(whole), parts)


@given(st.sampled_from(FORMATS[:3]), st.text(alphabet="abc <>[]{}_|\n\"'"))
def test_prose_is_content(format_, text: str) -> None:  # type: ignore[no-untyped-def]
    """Nothing is lost and nothing is added where nothing is called."""
    assert read(parser_of(Transcript("", format_, text)), text) == Message(content=text)


def test_arguments_stream_as_they_come() -> None:
    parser = HERMES.parser(TOOLS, "auto", True, lambda: "id")
    assert parser.feed('<tool_call>{"name": "add", ') == []
    assert parser.feed('"arguments": {"a": 1') == [
        ToolCallStart(0, "id", "add"),
        ToolCallArguments(0, '{"a": 1'),
    ]
    assert parser.feed("2, ") == [ToolCallArguments(0, "2, ")]


def test_only_what_may_become_structure_is_held() -> None:
    parser = HERMES.parser(TOOLS, "auto", True)
    assert parser.feed("Look: <tool") == [Content("Look: ")]
    assert parser.feed("box> ") == [Content("<toolbox> ")]


def test_ids_are_what_templates_accept() -> None:
    def id_of(format_, text: str) -> str:  # type: ignore[no-untyped-def]
        return read(format_.parser(TOOLS, "auto", True), [text]).calls[0][0]

    call = '{"name": "add", "arguments": {}}'
    first = id_of(HERMES, f"<tool_call>{call}</tool_call>")
    assert len(first) == 32
    assert first != id_of(HERMES, f"<tool_call>{call}</tool_call>")
    assert len(id_of(MISTRAL, f"[TOOL_CALLS][{call}]")) == 9
    assert id_of(MISTRAL, "[TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{}") == "abcdefghi"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False,
       allow_infinity=False) | st.text(), lambda inner: st.lists(inner) |
       st.dictionaries(st.text(), inner), max_leaves=8).map(lambda value: {"v": value}),
       st.integers(1, 9), st.booleans())  # fmt: skip
def test_any_arguments_come_through(value: object, size: int, ascii_only: bool) -> None:
    arguments = json.dumps(value, ensure_ascii=ascii_only)
    text = f'<tool_call>\n{{"name": "add", "arguments": {arguments}}}\n</tool_call>'
    message = read(HERMES.parser(TOOLS, "auto", True), pieces_of(text, size))
    assert message.named_arguments == [("add", arguments)]
    assert message.content == ""
