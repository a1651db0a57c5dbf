"""The HTTP client of one llama-server: its key, its limits, its errors, one per process.

Foreign exceptions end here: what aiohttp raises leaves as TargetUnreachable (no answer began)
or TargetBroken (an answer began and did not end).
"""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from specproxy.errors import TargetBroken, TargetError, TargetUnreachable
from specproxy.settings import TargetSettings
from specproxy.target.connections import has_begun, in_pieces, open_session

HEARTBEAT_S = 20.0
"""How often a silent WebSocket is asked whether it lives."""
TRAVELS = 5
"""Latest greetings of which the quickest tells the time to the target and back."""
STALE_S = 5.0
MAX_STALE = 16
"""Kept-alive connections that a request may find dead: a server closes all that rest at once."""
LOOK_S = 2.0
"""How often a silent answer's connection is looked at: not every end of one wakes its reader."""
JSON_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class TargetClient:
    """Requests to one target. Use as an async context manager.

    Attributes:
        heard_s: when something of an answer came last, by the monotonic clock; 0: never.
        stale_s: within so long a kept-alive connection shows that it was dead before its use.
    """

    def __init__(self, settings: TargetSettings) -> None:
        self._settings = settings
        self._url = URL(settings.url)
        self._session: aiohttp.ClientSession | None = None
        self.heard_s = 0.0
        self.stale_s = STALE_S
        self._open: set[aiohttp.ClientResponse] = set()
        self._waiting: set[asyncio.Timeout] = set()  # for an answer's head
        self._stopped = False
        self._travels: deque[float] = deque(maxlen=TRAVELS)

    @property
    def name(self) -> str:
        """Host and port, without credentials, for logs and messages."""
        return f"{self._url.host}:{self._url.port}"

    @property
    def has_key(self) -> bool:
        """Whether the target is sent a key of ours."""
        return self._settings.api_key is not None

    def without_key(self, text: bytes) -> bytes:
        """`text` with the target's key, which clients must not see, struck out."""
        if self._settings.api_key is None:
            return text
        return text.replace(self._settings.api_key.get_secret_value().encode(), b"[key]")

    async def __aenter__(self) -> "TargetClient":
        self._session = open_session(self._settings)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._session is not None:
            await self._session.close()

    def stop(self) -> None:
        """End all answers: whoever reads one gets TargetBroken; whoever waits for one, or asks
        from now on, gets TargetUnreachable."""
        self._stopped = True
        for response in self._open:
            response.close()
        for waiting in self._waiting:
            waiting.reschedule(0.0)
        self._waiting.clear()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str | URL,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the answer's body is still to be read, by `chunks`.

        A body of bytes is sent again when a kept-alive connection turns out to be dead at once,
        over the next one, and at last over a new one. One that dies later, and its server, may
        have died of this very request.

        Raises:
            TargetUnreachable: no answer began.
        """
        response = await self._send(method, path, dict(headers or {}), data)
        self.heard_s = time.monotonic()
        has_begun(response)
        self._open.add(response)
        try:
            yield response
        finally:
            self._open.discard(response)
            # close, not release: an answer that was not read to its end must stop generating
            response.close() if not response.content.at_eof() else response.release()

    async def _send(
        self,
        method: str,
        path: str | URL,
        headers: dict[str, str],
        data: bytes | AsyncIterator[bytes] | None,
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "use `async with`"
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key.get_secret_value()}"
        url = self._resolve(path)
        use: dict[str, bool] = {}
        for attempt in range(MAX_STALE + 1):
            began_s = time.monotonic()
            try:
                async with self._stoppable():
                    return await self._session.request(
                        method,
                        url,
                        headers=headers,
                        data=in_pieces(data),
                        allow_redirects=False,
                        trace_request_ctx=use,
                    )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                quick = time.monotonic() - began_s < self.stale_s
                stale = use.pop("reused", False) and quick and attempt < MAX_STALE
                if not stale or not isinstance(data, bytes | None):
                    raise TargetUnreachable(
                        f"The target {self.name} gave no answer ({type(error).__name__}).",
                        remedy="Is llama-server running there?",
                    ) from error
            except TimeoutError as error:
                if self._stopped:
                    raise _stopped_before_it_began() from error
                raise TargetUnreachable(
                    f"The target {self.name} gave no answer in time.",
                    remedy="Raise target.connect_s or target.first_byte_s if it is only slow.",
                ) from error
            except aiohttp.ClientError as error:
                raise TargetUnreachable(
                    f"The target {self.name} gave no valid answer ({type(error).__name__}).",
                    remedy="Is that a llama-server?",
                ) from error
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _stoppable(self) -> AsyncIterator[None]:
        """The block ends with a TimeoutError when the client is stopped."""
        if self._stopped:
            raise _stopped_before_it_began()
        async with asyncio.timeout(None) as waiting:
            self._waiting.add(waiting)
            try:
                yield
            finally:
                self._waiting.discard(waiting)

    def _resolve(self, path: str | URL) -> URL:
        """The target's URL for `path`, percent-encoding and query untouched."""
        base = str(self._url).rstrip("/")
        return URL(base + str(path), encoded=True)

    async def chunks(
        self, response: aiohttp.ClientResponse, *, tick_s: float | None = None, rests: bool = False
    ) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Args:
            tick_s: yield no bytes after so much silence, and again after as much more.
            rests: it may be silent for as long as its connection lives.

        Raises:
            TargetBroken: the connection died, or was silent for longer than the settings allow.
        """
        setting, limit_s = "first_byte_s", math.inf if rests else self._settings.first_byte_s
        silent_s = unticked_s = 0.0
        while True:
            wait_s = min(limit_s - silent_s, (tick_s or math.inf) - unticked_s, LOOK_S)
            try:
                async with asyncio.timeout(wait_s):
                    chunk = await response.content.readany()
            except TimeoutError as error:
                silent_s += wait_s
                unticked_s += wait_s
                if silent_s >= limit_s:
                    raise TargetBroken(
                        f"The target {self.name} was silent for {limit_s:g} s.",
                        remedy=f"Raise target.{setting} if its passes take that long.",
                    ) from error
                if tick_s is not None and unticked_s >= tick_s:
                    unticked_s = 0.0
                    yield b""
                continue
            except (aiohttp.ClientError, RuntimeError) as error:  # (the latter: it is closed)
                if self._stopped:
                    raise TargetBroken(
                        "specproxy was stopped before the answer was complete.",
                        remedy="Ask again when it is back.",
                    ) from error
                raise TargetBroken(
                    f"The target {self.name} broke off its answer ({type(error).__name__}).",
                    remedy="Look into llama-server's log; an RPC worker may have died.",
                ) from error
            if not chunk:
                return
            self.heard_s = time.monotonic()
            yield chunk
            setting, limit_s = "idle_s", math.inf if rests else self._settings.idle_s
            silent_s = unticked_s = 0.0

    @asynccontextmanager
    async def websocket(self, path: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to the target, closed at the end of the block.

        Raises:
            TargetUnreachable: it cannot be had.
            TargetBroken: it died.
        """
        assert self._session is not None, "use `async with`"
        headers = {}
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key.get_secret_value()}"
        try:
            socket = await self._session.ws_connect(
                self._resolve(path), headers=headers, heartbeat=HEARTBEAT_S, max_msg_size=0
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TargetUnreachable(
                f"The target {self.name} gave no draft channel ({type(error).__name__})."
            ) from error
        try:
            yield socket
        except aiohttp.ClientError as error:
            raise TargetBroken(f"The draft channel to {self.name} broke.") from error
        finally:
            await socket.close()

    async def greet(self) -> None:
        """Ask for its health: a reply that takes no more than the way there and back.

        Raises:
            TargetUnreachable: no answer.
            TargetError: it is loading, or no llama-server.
        """
        began_s = time.monotonic()
        try:
            await self.json("GET", "/health")
        except TargetError:
            self._travels.clear()  # it may come back elsewhere
            raise
        self._travels.append(time.monotonic() - began_s)

    @property
    def travel_s(self) -> float:
        """Time to the target and back, by the quickest of its latest greetings; 0: not known."""
        return min(self._travels, default=0.0)

    async def json(self, method: str, path: str, body: object = None) -> Any:
        """One small request of the proxy's own, answered in JSON.

        Raises:
            TargetUnreachable: no answer.
            TargetError: a status other than 200, or no JSON.
        """
        data = None if body is None else json.dumps(body).encode()
        async with self.request(method, path, headers=JSON_HEADERS, data=data) as response:
            text = b"".join([chunk async for chunk in self.chunks(response)])
            if response.status != 200:
                raise TargetError(
                    f"The target {self.name} answered {method} {path} with {response.status}.",
                    remedy="Set target.api_key to its key."
                    if response.status in (401, 403)
                    else "",
                )
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise TargetError(
                    f"The target {self.name} answered {method} {path} with no valid JSON."
                ) from error


def _stopped_before_it_began() -> TargetUnreachable:
    return TargetUnreachable(
        "specproxy was stopped before the answer began.", remedy="Ask again when it is back."
    )
