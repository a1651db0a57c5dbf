"""Reasoning in tags before the answer: `<think>...</think>`, or Mistral's `[THINK]...[/THINK]`.

As in llama-server, only at the answer's beginning; spaces before the tags are dropped, the line
breaks that belong to them too, and reasoning of nothing but spaces is none.
"""

import re
from collections.abc import Callable

from specproxy.coordinator.tools.markers import split_at_marker
from specproxy.coordinator.tools.protocol import Content, Delta, Reasoning, ToolParser

State = Callable[[], bool]


class ReasoningParser:
    """Reads the reasoning; what follows is for the parser inside."""

    def __init__(self, inner: ToolParser, tags: tuple[str, str], *, opened: str | None) -> None:
        """Args:
        tags: what stands before and after the reasoning.
        opened: what the prompt has of the reasoning; None: it did not begin there. Spaces count
            as the answer's, as in llama-server.
        """
        self._inner = inner
        self._begin, self._end = (tag.strip() for tag in tags)
        self._num_leading = tags[0].count("\n")
        self._num_trailing = len(tags[1]) - len(tags[1].rstrip("\n"))
        self._pending = ""
        self._blank = ""
        self._said = False
        self._deltas: list[Delta] = []
        self._state: State = self._before if opened is None else self._in_reasoning
        if opened is not None:
            self._reason(opened if opened.isspace() else "")

    def feed(self, text: str) -> list[Delta]:
        """As in the protocol."""
        self._pending += text
        while self._pending and self._state():
            pass
        return self._take()

    def finish(self) -> list[Delta]:
        """As in the protocol."""
        if self._state == self._in_reasoning:
            self._reason(self._pending)
        elif self._state != self._after:
            self._deltas += self._inner.feed(self._pending)
        self._pending = ""
        return [*self._take(), *self._inner.finish()]

    def _take(self) -> list[Delta]:
        deltas, self._deltas = self._deltas, []
        return deltas

    def _before(self) -> bool:
        self._pending = self._pending.lstrip()
        if self._pending.startswith(self._begin):
            self._pending = self._pending.removeprefix(self._begin)
            self._state = self._in_reasoning
        elif self._begin.startswith(self._pending):
            return False
        else:
            self._state = self._in_answer
        return True

    def _in_reasoning(self) -> bool:
        before, marker, self._pending = split_at_marker(self._pending, (self._end,))
        self._reason(before)
        if marker:
            self._state = self._after
        return bool(marker)

    def _reason(self, text: str) -> None:
        while self._num_leading and text.startswith("\n"):
            self._num_leading, text = self._num_leading - 1, text[1:]
        if text:
            self._num_leading = 0
        self._blank += text
        if self._said or self._blank.strip():
            self._said = True
            if self._blank:
                self._deltas.append(Reasoning(self._blank))
            self._blank = ""

    def _after(self) -> bool:
        """The line breaks that belong to the closing tag."""
        while self._num_trailing and self._pending.startswith("\n"):
            self._num_trailing, self._pending = self._num_trailing - 1, self._pending[1:]
        if not self._pending and self._num_trailing:
            return False
        self._state = self._in_answer
        return True

    def _in_answer(self) -> bool:
        self._deltas += self._inner.feed(self._pending)
        self._pending = ""
        return False


class PlainParser:
    """Everything is content."""

    def feed(self, text: str) -> list[Delta]:
        """As in the protocol."""
        return [Content(text)] if text else []

    def finish(self) -> list[Delta]:
        """As in the protocol."""
        return []


def open_reasoning(prompt: str, tags: tuple[str, str]) -> str | None:
    """The reasoning inside of which `prompt` ends, as far as it goes; None: it ends in none."""
    begin, end = (re.escape(tag.strip()) for tag in tags)
    found = re.search(rf"{begin}((?:(?!{end}|<\||\[/INST)[\s\S])*)\Z", prompt)
    return found[1] if found else None
