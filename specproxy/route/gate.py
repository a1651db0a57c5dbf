"""How many requests a route lets in at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from specproxy.errors import TooManyRequests


class Gate:
    """Counts who is in.

    Args:
        route: its name.
        most: None lets everybody in.
    """

    def __init__(self, route: str, most: int | None) -> None:
        self.num_inside = 0
        self._route = route
        self._most = most

    def __repr__(self) -> str:
        return f"<Gate {self.num_inside} of {self._most or 'any number'}>"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """One more is in while the context lasts.

        Raises:
            TooManyRequests: no more may come in.
        """
        if self._most is not None and self.num_inside >= self._most:
            raise TooManyRequests(
                f"{self._route} has {self.num_inside} requests to answer, as many as it may.",
                remedy="Ask again later.",
            )
        self.num_inside += 1
        try:
            yield
        finally:
            self.num_inside -= 1
