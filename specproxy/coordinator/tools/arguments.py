"""The arguments of a call that has begun: one JSON object, passed on as it comes."""

from enum import Enum, auto

from specproxy.coordinator.tools.json_scanner import JsonScanner
from specproxy.coordinator.tools.protocol import Delta, ToolCallArguments


class Reading(Enum):
    """How far a call is."""

    OPEN = auto()
    DONE = auto()
    BROKEN = auto()


class ArgumentsReader:
    """Arguments from their opening brace on; spaces before it are skipped."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._scanner = JsonScanner()
        self._fragment = ""

    def push(self, character: str) -> Reading:
        """Take a character. BROKEN: it is not part of the arguments."""
        scanner = self._scanner
        begins = scanner.depth == 0
        if (begins and character not in "{ \t\n\r") or not scanner.push(character):
            return Reading.BROKEN
        if scanner.depth or scanner.complete:
            self._fragment += character
        return Reading.DONE if scanner.complete else Reading.OPEN

    def take(self) -> list[Delta]:
        """What has come since the last time."""
        fragment, self._fragment = self._fragment, ""
        return [ToolCallArguments(self._index, fragment)] if fragment else []
