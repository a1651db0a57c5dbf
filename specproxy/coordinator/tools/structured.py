"""An answer that is one JSON value, perhaps in a code fence: the value alone is content."""

from specproxy.coordinator.tools.json_scanner import JsonScanner
from specproxy.coordinator.tools.protocol import Content, Delta

_FENCE = "```json"
_END = "```"


class StructuredParser:
    """Drops spaces and fence around the value; what else is there stays."""

    def __init__(self) -> None:
        self._scanner = JsonScanner()
        self._pending = ""
        self._state = self._before

    def feed(self, text: str) -> list[Delta]:
        """As in the protocol."""
        self._pending += text
        content = self._state()
        return [Content(content)] if content else []

    def finish(self) -> list[Delta]:
        """As in the protocol."""
        rest = "" if self._state == self._after else self._pending
        self._pending = ""
        return [Content(rest)] if rest else []

    def _before(self) -> str:
        self._pending = self._pending.lstrip()
        if self._pending != _FENCE and _FENCE.startswith(self._pending):
            return ""
        self._pending = self._pending.removeprefix(_FENCE)
        self._state = self._at_value
        return self._at_value()

    def _at_value(self) -> str:
        self._pending = self._pending.lstrip()
        if not self._pending:
            return ""
        self._state = self._in_value
        return self._in_value()

    def _in_value(self) -> str:
        for at, character in enumerate(self._pending):
            if not self._scanner.push(character):
                value, self._pending = self._pending[:at], self._pending[at:]
                self._state = self._after
                return value + self._after()
        value, self._pending = self._pending, ""
        if self._scanner.complete:
            self._state = self._after
        return value

    def _after(self) -> str:
        """Hold spaces and the fence's end, unless more comes."""
        if _END.startswith(self._pending.strip()):
            return ""
        self._state = self._behind
        return self._behind()

    def _behind(self) -> str:
        rest, self._pending = self._pending, ""
        return rest
