"""A coordinator's or proxy's own words: its routes, asked with short limits."""

from typing import Any

import aiohttp

from specproxy.errors import PoolError
from specproxy.pool.keys import COORDINATOR_VARIABLE

_LIMIT = aiohttp.ClientTimeout(total=5.0)


class Asker:
    """GET requests to one server. Use as an async context manager."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session = aiohttp.ClientSession(timeout=_LIMIT, headers=headers)

    async def __aenter__(self) -> "Asker":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def status(self, path: str) -> int | None:
        """The status of a GET; None: nobody answers."""
        try:
            async with self._session.get(self.url + path) as response:
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def json(self, path: str) -> Any:
        """The JSON of a GET.

        Raises:
            PoolError: there is none.
        """
        try:
            async with self._session.get(self.url + path) as response:
                if response.status in (401, 403):
                    raise PoolError(
                        f"{self.url} wants a key.", remedy=f"Set {COORDINATOR_VARIABLE} to it."
                    )
                if response.status != 200:
                    raise PoolError(f"{self.url}{path} answers {response.status}.")
                return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PoolError(f"{self.url} does not answer ({type(error).__name__}).") from error

    async def text(self, path: str) -> str:
        """The text of a GET; empty where there is none."""
        try:
            async with self._session.get(self.url + path) as response:
                return await response.text() if response.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""
