"""The draft channel to a coordinator: one WebSocket for the drafts of all its answers.

Invariant: the channel never touches an answer. When it is down answers come all the same, plain;
when it breaks, every answer on it is told that nothing more will be heard.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import aiohttp
import structlog

from specproxy.core.drafts import (
    PATH,
    PROTOCOL,
    Ended,
    Grow,
    GrownNode,
    Hello,
    Message,
    Passed,
    Prompt,
    decode,
    encode,
)
from specproxy.core.tasks import spawn, stop
from specproxy.errors import TargetBroken, TargetError
from specproxy.target.client import TargetClient

log = structlog.get_logger(__name__)

Heard = Prompt | Passed | Ended
Hears = Callable[[Heard], None]
MAX_UNSENT = 4096
"""Messages that may wait for a socket that does not take them; then the channel is given up."""


class AnswerDrafts:
    """One answer's end of the channel.

    Attributes:
        header: what the request must carry in `core.drafts.HEADER`.
    """

    def __init__(self, channel: "DraftChannel", answer: str, header: str) -> None:
        self.header = header
        self._channel = channel
        self._answer = answer

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        """Send drafted nodes; nothing happens while the channel is down."""
        self._channel.send(Grow(self._answer, nodes, go_at))


class DraftChannel:
    """The channel to one coordinator. Run `run` for as long as it is wanted."""

    def __init__(self, client: TargetClient) -> None:
        self._client = client
        self._name: str | None = None
        self._opened = asyncio.Event()
        self._unsent: asyncio.Queue[Message] = asyncio.Queue()
        self._listeners: dict[str, Hears] = {}
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"<DraftChannel {self._name or 'closed'} answers={len(self._listeners)}>"

    @property
    def is_open(self) -> bool:
        return self._name is not None

    @property
    def num_answers(self) -> int:
        return len(self._listeners)

    @contextmanager
    def answer(self, hears: Hears) -> Iterator[AnswerDrafts | None]:
        """Hear of one answer while the context lasts; None while the channel is down."""
        if self._name is None:
            yield None
            return
        answer = str(next(self._numbers))
        self._listeners[answer] = hears
        try:
            yield AnswerDrafts(self, answer, f"{self._name}/{answer}")
        finally:
            del self._listeners[answer]

    def send(self, message: Message) -> None:
        """Put a message on its way."""
        if self._name is not None and self._unsent.qsize() < MAX_UNSENT:
            self._unsent.put_nowait(message)

    async def opened(self, running: asyncio.Task[None]) -> None:
        """Wait until the channel is open, or `running` (a task of `run`) has ended."""
        opening = spawn(self._opened.wait(), name="draft channel opens")
        try:
            await asyncio.wait([opening, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await stop(opening)

    async def run(self) -> None:
        """Hold one connection; returns when the coordinator closes it.

        Raises:
            TargetError: it cannot be had, or broke, or speaks another protocol.
        """
        async with self._client.websocket(PATH) as socket:
            writer = spawn(self._write(socket), name="draft channel writer")
            try:
                async for frame in socket:
                    if frame.type is aiohttp.WSMsgType.TEXT:
                        self._hear(frame.data)
            finally:
                self._name = None
                self._opened.clear()
                await stop(writer)
                self._unsent = asyncio.Queue()
                for answer, hears in list(self._listeners.items()):
                    hears(Ended(answer))

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            while True:
                await socket.send_str(encode(await self._unsent.get()))
        except (aiohttp.ClientError, ConnectionError) as error:
            log.warning("the draft channel broke", reason=repr(error))
            await socket.close()

    def _hear(self, frame: str) -> None:
        try:
            message = decode(frame)
        except ValueError as error:
            raise TargetBroken(f"{self._client.name} sent {error}.") from error
        match message:
            case Hello(channel, protocol):
                if protocol != PROTOCOL:
                    raise TargetError(
                        f"{self._client.name} speaks version {protocol} of the draft channel,"
                        f" specproxy {PROTOCOL}.",
                        remedy="Run the same version of specproxy on both machines.",
                    )
                self._name = channel
                self._opened.set()
            case Prompt() | Passed() | Ended():
                hears = self._listeners.get(message.answer)
                if hears is not None:
                    hears(message)
