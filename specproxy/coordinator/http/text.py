"""From token pieces to text that may be shown: whole characters, and nothing of a stop string.

Mirrors `process_token` of llama.cpp's tools/server/server-context.cpp at 0c1e570, quirks included:
text held back when the generation ends at a limit is in the whole answer, but not in the stream.
Invariant: fed token by token, it never depends on how many tokens a pass gave.
"""

from collections.abc import Sequence

_MAX_CHARACTER_BYTES = 4


class AnswerText:
    """The text of one answer.

    Attributes:
        data: all of it up to the stop string; it may end within a character.
        stopping_word: the stop string that ended it; None so far.
        has_new_line: a line break has been shown.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.data = bytearray()
        self.stopping_word: str | None = None
        self.has_new_line = False
        self._stops = [(word, word.encode("utf-8", "replace")) for word in stops]
        self._num_shown = 0

    def take(self, piece: bytes, *, is_end: bool) -> bytes | None:
        """Add a token's piece. What may be shown now; None while a character is incomplete.

        Args:
            is_end: the token ends the generation: nothing needs to be held back any more.
        """
        self.data += piece
        if num_complete(self.data) < len(self.data):
            return None
        fresh = bytes(self.data[self._num_shown :])
        at = self._find_stop(fresh, len(piece))
        if at is not None:
            del self.data[self._num_shown + at :]
            fresh = fresh[:at]
        elif not is_end and any(_ends_with_beginning(fresh, word) for _, word in self._stops):
            return b""
        self._num_shown += len(fresh)
        self.has_new_line = self.has_new_line or b"\n" in fresh
        return fresh

    def _find_stop(self, fresh: bytes, num_last: int) -> int | None:
        """Where the first stop string begins, of those that end in the last token."""
        found: int | None = None
        for word, data in self._stops:
            at = fresh.find(data, max(0, len(fresh) - len(data) - num_last))
            if at >= 0 and (found is None or at < found):
                found, self.stopping_word = at, word
        return found


def num_complete(data: bytes | bytearray) -> int:
    """Bytes of `data` before a UTF-8 character that is cut off at its end."""
    for back in range(1, min(_MAX_CHARACTER_BYTES, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4
            is_lead = byte & 0xC0 == 0xC0 and byte & 0xF8 != 0xF8
            return len(data) - back if is_lead and back < needed else len(data)
    return len(data)


def shown(data: bytes | bytearray) -> str:
    """As JSON holds it: what is no UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def _ends_with_beginning(text: bytes, word: bytes) -> bool:
    return any(text.endswith(word[:length]) for length in range(min(len(text), len(word)), 0, -1))
