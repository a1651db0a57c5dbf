"""What each result adds to a chat answer: reasoning, content and tool calls, as differences.

Invariant: the differences, joined, are the message of the answer without a stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from specproxy.testing.chat import read_answer
from specproxy.testing.parameters import CompletionParams
from specproxy.testing.tools import Call, read_calls


@dataclass(frozen=True)
class Message:
    """An answer as the chat parser reads it."""

    reasoning: str = ""
    content: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Diff:
    """One addition: of reasoning, of content, of a call's name, or of its arguments."""

    reasoning: str = ""
    content: str = ""
    call: int | None = None
    name: str = ""
    arguments: str = ""


def read_message(text: str, params: CompletionParams, *, partial: bool = False) -> Message:
    """The message that `text` is, as far as it goes."""
    reasoning, content = read_answer(text, partial=partial) if params.thinks else ("", text)
    if not params.tools:
        return Message(reasoning, content)
    content, calls = read_calls(content, partial=partial)
    return Message(reasoning, content, tuple(calls))


class ChatReader:
    """Reads one answer piece by piece."""

    def __init__(self, params: CompletionParams) -> None:
        self._params = params
        self._text = ""
        self.message = Message()

    def read(self, text: str) -> list[Diff]:
        """What `text` adds."""
        self._text += text
        return list(self._move(read_message(self._text, self._params, partial=True)))

    def end(self) -> list[Diff]:
        """What was held back."""
        return list(self._move(read_message(self._text, self._params)))

    def _move(self, new: Message) -> Iterator[Diff]:
        old, self.message = self.message, new
        if len(new.reasoning) > len(old.reasoning):
            yield Diff(reasoning=new.reasoning[len(old.reasoning) :])
        if len(new.content) > len(old.content):
            yield Diff(content=new.content[len(old.content) :])
        for index, call in enumerate(new.calls):
            known = old.calls[index] if index < len(old.calls) else None
            if known is None:
                yield Diff(call=index, name=call.name)
            added = call.arguments[len(known.arguments) if known else 0 :]
            if added:
                yield Diff(call=index, arguments=added)
