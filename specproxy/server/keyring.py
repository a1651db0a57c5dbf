"""Client keys and what they open: `listen.api_key` everything, a route's own keys that route.

Invariant: which keys are compared, and for how long, does not depend on the key that was given.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.settings import Settings


@dataclass(frozen=True, slots=True)
class Access:
    """What a client may use.

    Attributes:
        routes: names of the routes that are open to it; one at least.
        owner: the proxy's own pages, too: metrics, status, live page.
    """

    routes: frozenset[str]
    owner: bool


class Keyring:
    """All client keys of the settings.

    Attributes:
        without_key: the default route, for the few requests that need no key.
    """

    def __init__(self, settings: Settings) -> None:
        routes = settings.all_routes
        owner = settings.listen.api_key
        self._everything = Access(frozenset(routes), owner=True)
        self.without_key = Access(frozenset(list(routes)[:1]), owner=False)
        self._owner = None if owner is None else owner.get_secret_value().encode()
        self._keys = [
            (key.get_secret_value().encode(), name)
            for name, route in routes.items()
            for key in route.keys
        ]

    def __repr__(self) -> str:
        return f"<Keyring {len(self._keys)} keys of routes>"

    def access(self, given: Sequence[bytes]) -> Access | None:
        """What these keys open; None: none of them is right."""
        if self._owner is None or _is_among(self._owner, given):
            return self._everything
        opened = [name for key, name in self._keys if _is_among(key, given)]
        return Access(frozenset(opened), owner=False) if opened else None


def _is_among(key: bytes, given: Sequence[bytes]) -> bool:
    return bool(sum(hmac.compare_digest(key, one) for one in given))
