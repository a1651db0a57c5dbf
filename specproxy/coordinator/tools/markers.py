"""Literals in a stream of text that comes in pieces of any length."""

from collections.abc import Collection


def split_at_marker(text: str, markers: Collection[str]) -> tuple[str, str, str]:
    """Split `text` at the first of `markers`.

    Returns:
        What is before it, the marker, and what follows. Without a marker the second is empty and
        the third is the end of `text` that may yet become one.
    """
    found = [(at, marker) for marker in markers if (at := text.find(marker)) >= 0]
    if found:
        at, marker = min(found, key=lambda one: (one[0], -len(one[1])))
        return text[:at], marker, text[at + len(marker) :]
    longest = max(map(len, markers), default=1)
    for at in range(max(0, len(text) - longest + 1), len(text)):
        if any(marker.startswith(text[at:]) for marker in markers):
            return text[:at], "", text[at:]
    return text, "", ""
