"""What the parsers of all formats share: held text, states, and calls in JSON.

A parser is in one state: a method that takes what it can from `_pending` and says whether another
look is worth while. `_raw` is structure that turns out to be content where no call follows it.
"""

from collections.abc import Callable, Collection, Sequence

from specproxy.coordinator.tools.arguments import ArgumentsReader, Reading
from specproxy.coordinator.tools.call_reader import CallReader
from specproxy.coordinator.tools.markers import split_at_marker
from specproxy.coordinator.tools.protocol import (
    Content,
    Delta,
    Reasoning,
    Tool,
    ToolCallStart,
)

State = Callable[[], bool]


def names_of(tools: Sequence[Tool]) -> frozenset[str]:
    """The functions that may be called."""
    return frozenset(tool["function"]["name"] for tool in tools)


class StreamParser:
    """The base of the formats' parsers."""

    def __init__(
        self, tools: Sequence[Tool], parallel: bool, new_id: Callable[[], str], start: State
    ) -> None:
        self._names = names_of(tools)
        self._new_id = new_id
        self._max_calls = len(self._names) and (1 << 30 if parallel else 1)
        self._num_calls = 0
        self._pending = ""
        self._raw = ""
        self._state = start
        self._reader: CallReader | None = None
        self._arguments: ArgumentsReader | None = None
        self._deltas: list[Delta] = []

    def feed(self, text: str) -> list[Delta]:
        """As in the protocol."""
        self._pending += text
        while self._pending and self._state():
            pass
        return self._take()

    def finish(self) -> list[Delta]:
        """As in the protocol."""
        reader, self._reader = self._reader, None
        if reader is None:
            self._say(self._raw + self._pending)
        elif not reader.begun:
            self._say(self._raw + reader.held + self._pending)
        self._raw = self._pending = ""
        return self._take()

    @property
    def _may_call(self) -> bool:
        return self._num_calls < self._max_calls

    def _take(self) -> list[Delta]:
        deltas, self._deltas = self._deltas, []
        return deltas

    def _say(self, text: str, kind: type[Content | Reasoning] = Content) -> None:
        """Give out `text`, joined with what went before it in this step."""
        if not text:
            return
        if self._deltas and isinstance(last := self._deltas[-1], kind):
            text = last.text + text
            self._deltas.pop()
        self._deltas.append(kind(text))

    def _say_until(self, markers: Collection[str]) -> str:
        """Give out what is before the first of `markers`, and take both; the marker found."""
        before, marker, self._pending = split_at_marker(self._pending, markers)
        self._say(before)
        return marker

    def _skip_spaces(self) -> bool:
        """Move spaces to `_raw`; whether anything is left."""
        rest = self._pending.lstrip()
        self._raw += self._pending[: len(self._pending) - len(rest)]
        self._pending = rest
        return bool(rest)

    def _starts_with(self, literal: str) -> bool | None:
        """Whether what is pending starts with `literal`; None: it may yet."""
        if self._pending.startswith(literal):
            return True
        return None if literal.startswith(self._pending) else False

    def _swallow(self, literal: str) -> None:
        self._pending = self._pending.removeprefix(literal)
        self._raw = ""

    def _begin_call(self, state: State) -> bool:
        self._reader = CallReader(self._num_calls, self._names, self._new_id)
        self._state = state
        return True

    def _read_call(self, after: State, otherwise: State) -> bool:
        """Go on with a call; then go to `after`, or where it is broken to `otherwise`."""
        reader = self._reader
        assert reader is not None
        for at, character in enumerate(self._pending):
            reading = reader.push(character)
            if reading is Reading.OPEN:
                continue
            self._deltas += reader.take()
            self._reader = None
            if reading is Reading.DONE:
                self._num_calls += 1
                self._raw, self._state = "", after
                self._pending = self._pending[at + 1 :]
                return True
            self._num_calls += reader.begun
            self._say(("" if reader.begun else self._raw) + reader.held)
            self._raw, self._state = "", otherwise
            self._pending = self._pending[at:]
            return True
        self._pending = ""
        self._deltas += reader.take()
        return False

    def _begin_arguments(self, name: str, identity: str, state: State) -> None:
        """A call whose name was read already begins."""
        self._deltas.append(ToolCallStart(self._num_calls, identity, name))
        self._arguments = ArgumentsReader(self._num_calls)
        self._num_calls += 1
        self._raw, self._state = "", state

    def _read_arguments(self, after: State, otherwise: State) -> bool:
        """Go on with them; then go to `after`, or where they are broken to `otherwise`."""
        reader = self._arguments
        assert reader is not None
        for at, character in enumerate(self._pending):
            reading = reader.push(character)
            if reading is Reading.OPEN:
                continue
            self._deltas += reader.take()
            done = reading is Reading.DONE
            self._state = after if done else otherwise
            self._pending = self._pending[at + done :]
            return True
        self._pending = ""
        self._deltas += reader.take()
        return False
