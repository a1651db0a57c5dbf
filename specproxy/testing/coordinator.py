"""A scripted coordinator: the real application over a scripted engine, on a free port.

    async with ScriptedCoordinator(language) as coordinator:
        ...  # coordinator.url, coordinator.engine

Invariant: nothing is left running after the context ends, whatever was still in flight.
"""

from typing import Any, Self

from aiohttp import web

from specproxy.coordinator.answer_format import AnswerFormat
from specproxy.coordinator.app import create_app
from specproxy.coordinator.channel import Channels
from specproxy.coordinator.http.service import SERVICE
from specproxy.coordinator.served import ModelFacts, ServedModel
from specproxy.coordinator.templates import ChatTemplate
from specproxy.testing.chat import TEMPLATE
from specproxy.testing.language import Language
from specproxy.testing.scripted_engine import ScriptedEngine
from specproxy.testing.vocabulary import BOS, IM_END


class ScriptedCoordinator:
    """The server and its engine.

    Args:
        template: Jinja text; another one than the scripted target's has other tool calls.
        flags: of `ScriptedEngine`.

    Attributes:
        engine: the present life's.
        port: the same in all lives; 0 before the first.
    """

    def __init__(
        self,
        language: Language | None = None,
        *,
        template: str = TEMPLATE,
        api_key: str | None = None,
        **flags: Any,
    ) -> None:
        self._language = language
        self._template = template
        self._api_key = api_key
        self._flags = flags
        self.port = 0
        self._runner: web.AppRunner | None = None
        self.engine = ScriptedEngine(language, **flags)

    def __repr__(self) -> str:
        return f"ScriptedCoordinator({self.url}, {self.engine!r})"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def channels(self) -> Channels:
        """The open draft channels."""
        assert self._runner is not None
        return self._runner.app[SERVICE].channels

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.down()

    async def up(self) -> None:
        """A new process on the same port, with empty caches."""
        if not self.engine.alive:
            self.engine = ScriptedEngine(self._language, **self._flags)
        self._runner = web.AppRunner(
            create_app(self._served(), api_key=self._api_key),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        """The process dies: connections are reset, new ones refused."""
        await self.engine.aclose()
        runner, self._runner = self._runner, None
        if runner is None:
            return
        server = runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()

    def _served(self) -> ServedModel:
        vocabulary = self.engine.vocabulary
        name = self.engine.model_name
        bos = BOS if vocabulary.add_bos else ""
        template = ChatTemplate(
            self._template,
            bos_text=bos,
            eos_text=IM_END,
            model_name=name,
            adds_bos=vocabulary.add_bos,
        )
        facts = ModelFacts(
            path=f"/models/{name}.gguf", ftype="scripted", bos_text=bos, eos_text=IM_END
        )
        return ServedModel(self.engine, template, AnswerFormat.of(self._template), facts)
