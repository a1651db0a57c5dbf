"""How large a request's body may be: `listen.max_body_bytes`, or a route's own limit."""

from collections.abc import Collection
from dataclasses import dataclass

from specproxy.errors import BodyTooLarge
from specproxy.settings import Settings


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """One limit.

    Attributes:
        setting: which key sets it.
    """

    num_bytes: int
    setting: str

    def check(self, num_bytes: int) -> None:
        """
        Raises:
            BodyTooLarge: a body of `num_bytes` is beyond it.
        """
        if num_bytes > self.num_bytes:
            raise self.exceeded

    @property
    def exceeded(self) -> BodyTooLarge:
        """The error to be raised."""
        return BodyTooLarge(
            f"The request's body is larger than {self.num_bytes} bytes.",
            remedy=f"Raise {self.setting}.",
        )


class BodyLimits:
    """The limits of all routes, by their names."""

    def __init__(self, settings: Settings) -> None:
        general = BodyLimit(settings.listen.max_body_bytes, "listen.max_body_bytes")
        self._of = {
            name: general
            if route.max_body_bytes is None
            else BodyLimit(route.max_body_bytes, f"routes.{name}.max_body_bytes")
            for name, route in settings.all_routes.items()
        }

    def __repr__(self) -> str:
        return f"<BodyLimits {self._of}>"

    def of(self, route: str) -> BodyLimit:
        """That of a route."""
        return self._of[route]

    def largest(self, routes: Collection[str]) -> BodyLimit:
        """What no body for one of these routes may exceed; where equal, the first one's."""
        mine = (limit for name, limit in self._of.items() if name in routes)
        return max(mine, key=lambda limit: limit.num_bytes)

    @property
    def num_bytes(self) -> int:
        """The largest of all."""
        return self.largest(self._of).num_bytes
