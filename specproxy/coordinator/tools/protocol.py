"""What a model's way of writing tool calls can do, and the pieces that its answers fall into."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specproxy.coordinator.schema.converter import SchemaConverter

Tool = Mapping[str, Any]
"""One entry of a request's `tools`."""

ToolChoice = str | Mapping[str, Any]
"""`auto`, `none`, `required`, or `{"type": "function", "function": {"name": ...}}`."""


@dataclass(frozen=True, slots=True)
class Content:
    """More of the message's `content`."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of the message's `reasoning_content`."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A tool call begins; its name is complete."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the JSON text of a call's arguments."""

    index: int
    fragment: str


Delta = Content | Reasoning | ToolCallStart | ToolCallArguments


class ToolParser(Protocol):
    """Reads one answer. Invariant: no character of it comes out twice, none is invented."""

    def feed(self, text: str) -> list[Delta]:
        """Take more of the answer's text; what is certain now, in order."""
        ...

    def finish(self) -> list[Delta]:
        """The answer is over: what was still held back. Call it once."""
        ...


class ToolFormat(Protocol):
    """A family's way of writing tool calls.

    Attributes:
        name: of the family, for messages.
        special_texts: literals of control tokens that must reach the parser as text.
        structures_all: answers without tool calls have to be parsed as well.
    """

    @property
    def name(self) -> str: ...

    @property
    def special_texts(self) -> frozenset[str]: ...

    @property
    def structures_all(self) -> bool: ...

    def parser(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """A parser for one answer.

        Args:
            new_id: gives the calls their ids; None: random ones.
        """
        ...

    def add_calls(self, converter: SchemaConverter, tools: Sequence[Tool], parallel: bool) -> str:
        """Add the rules of an answer that calls one of `tools`, its reasoning apart.

        Returns:
            The expression of that answer.

        Raises:
            RequestError: llama-server has no working grammar for this either, or no grammar says
                what a function's parameters ask for.
        """
        ...
