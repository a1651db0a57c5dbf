"""The draft channel, the coordinator's side: WebSockets that grow the trees of running answers.

Invariant: nothing here can change or hold up an answer. A channel that is gone, slow or wrong is
dropped, and its answers go on without drafts.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from specproxy.coordinator.generation import Generation, Step
from specproxy.core.drafts import (
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

log = structlog.get_logger(__name__)

MAX_UNSENT = 1024
"""Messages that may wait for a client that does not read; then it is dropped."""
MAX_FRAME_BYTES = 1024 * 1024
MAX_ANSWERS = 1024
MAX_NODES = 1024
HEARTBEAT_S = 20.0


class Drafting:
    """One answer's end of the channel; an answer without drafts has one of no channel."""

    def __init__(self, channel: "Channel | None" = None, answer: str = "") -> None:
        self._channel = channel
        self._answer = answer
        self._generation: Generation | None = None

    @property
    def is_open(self) -> bool:
        return self._channel is not None

    def begin(self, generation: Generation, prompt: Sequence[int]) -> None:
        """The answer runs from now on: its client may draft for it."""
        self._generation = generation
        self._send(Prompt(self._answer, prompt))

    def grow(self, message: Grow) -> None:
        if self._generation is not None:
            self._generation.grow(message.nodes, message.go_at)

    def passed(self, step: Step, tokens: Sequence[int]) -> None:
        """A pass emitted `tokens`."""
        self._send(
            Passed(
                self._answer,
                tokens,
                num_verified=step.num_verified,
                num_accepted=step.num_accepted,
                num_rows=step.num_rows,
                duration_s=step.duration_s,
                waited_s=step.waited_s,
            )
        )

    def end(self) -> None:
        """No more passes. Idempotent."""
        self._send(Ended(self._answer))
        if self._channel is not None:
            self._channel.forget(self._answer)
        self._channel = self._generation = None

    def lose(self) -> None:
        """The channel is gone: the answer waits for no drafts any more."""
        self._channel = None
        if self._generation is not None:
            self._generation.grow([], go_at=0)

    def _send(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)


class Channel:
    """One client's WebSocket and the answers it drafts for."""

    def __init__(self, name: str, num_vocabulary: int) -> None:
        self.name = name
        self._num_vocabulary = num_vocabulary
        self._answers: dict[str, Drafting] = {}
        self._unsent: asyncio.Queue[Message] = asyncio.Queue()
        self._dropped = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Channel {self.name} answers={len(self._answers)}>"

    def drafting(self, answer: str) -> Drafting | None:
        """An end for a new answer; None if there is one of this name, or no room."""
        if answer in self._answers or len(self._answers) >= MAX_ANSWERS or self._dropped.is_set():
            return None
        self._answers[answer] = Drafting(self, answer)
        return self._answers[answer]

    def forget(self, answer: str) -> None:
        self._answers.pop(answer, None)

    def send(self, message: Message) -> None:
        """Put a message on its way; drops the channel when its client does not read."""
        if self._unsent.qsize() >= MAX_UNSENT:
            if not self._dropped.is_set():
                log.warning("a draft channel is dropped: its client does not read", name=self.name)
            self.drop()
        else:
            self._unsent.put_nowait(message)

    def drop(self) -> None:
        """Give it up at once."""
        self._dropped.set()
        for drafting in list(self._answers.values()):
            drafting.lose()
        self._answers.clear()

    async def run(self, socket: web.WebSocketResponse) -> None:
        """Read and write until either side has enough."""
        self.send(Hello(self.name))
        tasks = [
            spawn(self._read(socket), name=f"draft channel {self.name} reads"),
            spawn(self._write(socket), name=f"draft channel {self.name} writes"),
            spawn(self._dropped.wait(), name=f"draft channel {self.name} is dropped"),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.drop()
            for task in tasks:
                await stop(task)

    async def _write(self, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):  # it is closed
            while True:
                await socket.send_str(encode(await self._unsent.get()))

    async def _read(self, socket: web.WebSocketResponse) -> None:
        async for frame in socket:
            try:
                if frame.type is not WSMsgType.TEXT:
                    raise ValueError("a frame that is no text")
                message = decode(frame.data)
                if isinstance(message, Grow):
                    self._grow(message)
            except ValueError as error:
                log.warning("a draft channel is closed", name=self.name, reason=str(error))
                reason = str(error).encode()[:100]
                await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=reason)
                return

    def _grow(self, message: Grow) -> None:
        if type(message.answer) is not str or type(message.go_at) is not int:
            raise ValueError("a Grow with fields of other types")
        if len(message.nodes) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes in one Grow")
        for node in message.nodes:
            self._check(node)
        drafting = self._answers.get(message.answer)
        if drafting is not None:
            drafting.grow(message)

    def _check(self, node: GrownNode) -> None:
        numbers = (node.id, node.position, node.token)
        if (
            any(type(number) is not int for number in numbers)
            or type(node.parent) not in (int, type(None))
            or type(node.acceptance) not in (int, float)
            or not 0 <= node.token < self._num_vocabulary
        ):
            raise ValueError(f"a node with wrong numbers: {node}")


class Channels:
    """The open channels by name."""

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._channels)

    def drafting(self, header: str | None) -> Drafting:
        """The end that a request's `CHANNEL/ANSWER` names; one of no channel if there is none."""
        name, _, answer = (header or "").partition("/")
        channel = self._channels.get(name)
        found = channel.drafting(answer) if channel is not None and answer else None
        return found or Drafting()

    @contextmanager
    def opened(self, num_vocabulary: int) -> Iterator[Channel]:
        """A new channel, known while the context lasts."""
        name = f"{next(self._numbers)}-{secrets.token_hex(4)}"
        channel = self._channels[name] = Channel(name, num_vocabulary)
        try:
            yield channel
        finally:
            del self._channels[name]
            channel.drop()

    def drop_all(self) -> None:
        """The application stops."""
        for channel in list(self._channels.values()):
            channel.drop()
