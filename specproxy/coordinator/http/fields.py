"""A request's fields, one by one, as llama-server reads them: null counts as absent.

Invariant: whatever a client sends, a field has its type and bounds, or RequestError says which
field it was, what it held and what it takes.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

from specproxy.errors import RequestError

INT32_MAX = 2**31 - 1


class Fields:
    """The fields of one JSON object. Of several names of a field the first given one counts."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def given(self, *names: str) -> tuple[str, Any] | None:
        """(name, value) of the first of `names` that is there and not null."""
        for name in names:
            if self._body.get(name) is not None:
                return name, self._body[name]
        return None

    def value(self, *names: str) -> Any:
        """The value alone, unchecked; None if absent."""
        found = self.given(*names)
        return found[1] if found else None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(name, value, "true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise wrong(name, value, "a string")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; one string counts as a list of it."""
        value = self.value(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list):
            raise wrong(name, value, "a string or a list of strings")
        for i, word in enumerate(value):
            if not isinstance(word, str):
                raise wrong(f"{name}[{i}]", word, "a string")
        return tuple(value)

    def number(
        self, *names: str, default: float, low: float = -math.inf, high: float = math.inf
    ) -> float:
        """A number, moved into `low`..`high` as llama-server does."""
        found = self._number(*names)
        return default if found is None else float(min(high, max(low, found[1])))

    def integer(
        self, *names: str, default: int, low: int, high: int = INT32_MAX, moved: bool = False
    ) -> int:
        """A whole number; a fraction is cut off.

        Args:
            moved: into the bounds if it is outside; else that is an error.
        """
        found = self._number(*names)
        if found is None:
            return default
        name, value = found[0], int(found[1])
        if moved:
            return min(high, max(low, value))
        if not low <= value <= high:
            raise RequestError(
                f"Field '{name}': {value} is out of range.", remedy=f"Use {low} to {high}."
            )
        return value

    def _number(self, *names: str) -> tuple[str, float] | None:
        found = self.given(*names)
        if found is None:
            return None
        name, value = found
        return name, checked_number(name, value, "a number")


def checked_number(name: str, value: Any, wanted: str) -> float:
    """`value`, if it is a number that a float can hold.

    Raises:
        RequestError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(name, value, wanted)
    if not abs(value) <= sys.float_info.max:
        raise RequestError(f"Field '{name}': the number is too large.", remedy="Use less.")
    return value


def wrong(name: str, value: object, wanted: str) -> RequestError:
    """A field has the wrong type."""
    return RequestError(
        f"Field '{name}': must be {wanted}, but is {_kind(value)}.",
        remedy=f"Send {wanted}, or leave it out.",
    )


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a string", list: "an array", dict: "an object", type(None): "null"}
    return kinds.get(type(value), "a number")
