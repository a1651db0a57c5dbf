"""A scripted llama-server: a real HTTP server over a toy vocabulary.

    async with ScriptedTarget(n_match=4) as target:
        ...  # target.url, target.requests, target.faults, target.passes

Invariant: nothing is left running after the context ends, whatever was still in flight.
"""

import asyncio
import json
import random
import secrets
from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from specproxy.testing import shapes
from specproxy.testing.chat import BadRequest
from specproxy.testing.completions import Served, break_body, complete, json_response
from specproxy.testing.engine import Engine, Pass
from specproxy.testing.faults import Faults, ReceivedRequest
from specproxy.testing.language import Language
from specproxy.testing.ngram_pool import NgramPool
from specproxy.testing.pass_loop import PassLoop
from specproxy.testing.routes import COMPLETIONS, ROUTES, echo

PUBLIC = ("/health", "/v1/health")
MAX_BODY_BYTES = 64 * 1024 * 1024


class ScriptedTarget:
    """The server and its switches.

    Args:
        language: the model; a plain `Language()` by default.
        n_match, n_min, n_max: the pool's flags (`--spec-ngram-mod-*`).
        has_ngram_pool: False: started without `--spec-type ngram-mod`.
        pass_ms, token_ms: simulated time of a pass and of each token in it.
        similarity: `-sps`.
        own_limit: `-n`.
        shifts_context, shows_special: `--context-shift`, `--special`.
        api_key: wanted in `Authorization: Bearer`, except by the health routes.
        lacking: paths that this (old) build does not have.
        random_seed: of requests without a seed; None: truly random.

    Attributes:
        faults: see `faults.Faults`.
        requests: every request received, in order.
    """

    def __init__(
        self,
        language: Language | None = None,
        *,
        num_slots: int = 4,
        n_ctx: int = 4096,
        n_batch: int = 2048,
        n_match: int = 4,
        n_min: int = 1,
        n_max: int = 64,
        has_ngram_pool: bool = True,
        pass_ms: float = 0.0,
        token_ms: float = 0.0,
        similarity: float = 0.1,
        own_limit: int = -1,
        shifts_context: bool = False,
        shows_special: bool = False,
        model: str = "toy-model",
        api_key: str | None = None,
        lacking: Collection[str] = (),
        random_seed: int | None = None,
    ) -> None:
        self.faults = Faults()
        self.requests: list[ReceivedRequest] = []
        self.api_key = api_key
        self.lacking = set(lacking)
        self._own_limit = own_limit
        self._engine_flags: dict[str, Any] = {
            "num_slots": num_slots,
            "n_ctx": n_ctx,
            "n_batch": n_batch,
            "similarity": similarity,
            "shifts_context": shifts_context,
            "shows_special": shows_special,
        }
        self._pool_flags = (n_match, n_min, n_max) if has_ngram_pool else None
        self._entropy = random.Random(random_seed)
        self._times = (pass_ms, token_ms)
        self._arrived = asyncio.Condition()
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._served = self._boot(language or Language(), model)

    def __repr__(self) -> str:
        return f"ScriptedTarget({self.url}, {self.engine!r})"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def language(self) -> Language:
        return self._served.language

    @property
    def life(self) -> str:
        """What `/props` tells this process from another by."""
        return self._served.media_marker

    @property
    def clock(self) -> PassLoop:
        """Pass times, and `hold`, `step`, `go`."""
        return self._served.passes

    @property
    def engine(self) -> Engine:
        return self._served.passes.engine

    @property
    def passes(self) -> list[Pass]:
        """Every pass since the process started."""
        return self.engine.passes

    @property
    def pool(self) -> NgramPool | None:
        return self.engine.pool

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        app.on_response_prepare.append(self._set_headers)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await self._runner.setup()
        await self._listen()
        self._served.passes.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        if self._site is not None:
            await self._refuse_connections()
        self._abort_connections()
        await self._runner.cleanup()
        await self._served.passes.stop()

    async def down(self) -> None:
        """The process dies: connections are reset, new ones refused."""
        if self._site is not None:
            await self._refuse_connections()
            await self._site.stop()
            self._site = None
        self._abort_connections()
        await self._served.passes.stop()
        self.engine.abandon()

    async def up(self, language: Language | None = None, model: str | None = None) -> None:
        """A new process on the same port: empty pool and caches, maybe another model."""
        clock = self.clock
        self._times = (clock.pass_ms, clock.token_ms)
        self._served = self._boot(language or self.language, model or self._served.model)
        self._served.passes.new_length_ms = clock.new_length_ms
        self._served.passes.start()
        await self._listen()

    def received(self, path: str) -> list[ReceivedRequest]:
        """The requests that came for `path`."""
        return [request for request in self.requests if request.path == path]

    async def wait_for(self, path: str, count: int = 1) -> list[ReceivedRequest]:
        """Wait until `count` requests have come for `path`; returns them."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received(path)) >= count)
        return self.received(path)

    def _boot(self, language: Language, model: str) -> Served:
        pool = NgramPool(*self._pool_flags) if self._pool_flags else None
        engine = Engine(language, pool=pool, **self._engine_flags)
        pass_ms, token_ms = self._times
        clock = PassLoop(engine, pass_ms=pass_ms, token_ms=token_ms)
        marker = f"<__media_{secrets.token_hex(8)}__>"  # random, once per process, as there
        return Served(language, clock, model, self._entropy, marker, self._own_limit)

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    async def _refuse_connections(self) -> None:
        """Accept no more, and let what was accepted become a connection: Python's server would
        drop it half made (gh-109564)."""
        assert self._site is not None
        server = self._site._server
        for listening in getattr(server, "sockets", ()):
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(3):
            await asyncio.sleep(0)

    def _abort_connections(self) -> None:
        assert self._runner is not None
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def _set_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Server"] = "llama.cpp"
        response.headers["Access-Control-Allow-Origin"] = request.headers.get("Origin", "")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._site is None and request.transport is not None:
            request.transport.abort()  # a connection that had not been taken when it went down
        received = await _receive(request)
        async with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        if self.api_key is not None and request.path not in PUBLIC and not self._knows(request):
            return _refuse("Invalid API Key", "authentication_error", 401)
        if self.faults.loading:
            return _refuse("Loading model", "unavailable_error", 503)
        faults = self.faults.for_request(received)
        if faults.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(faults.delay_s)
        if faults.answer is not None:
            canned = faults.answer
            headers = {"Content-Type": canned.content_type, **canned.headers}
            response = web.Response(status=canned.status, body=canned.body, headers=headers)
            if faults.stream is None:
                return response
            return await break_body(request, response, canned.body, faults)
        try:
            return await self._answer(request, faults)
        except BadRequest as cause:
            kind = "invalid_request_error" if cause.status == 400 else "server_error"
            body = shapes.error(str(cause), kind, cause.status)
            return json_response(body, status=cause.status)

    async def _answer(self, request: web.Request, faults: Faults) -> web.StreamResponse:
        if request.path.startswith("/echo"):
            return await echo(request, self._served)
        if request.path not in self.lacking:
            kind = COMPLETIONS.get(request.path)
            if kind is not None and request.method == "POST":
                return await complete(request, self._served, faults, kind)
            route = ROUTES.get((request.method, request.path))
            if route is not None:
                return await route(request, self._served)
        return _refuse("File Not Found", "not_found_error", 404)

    def _knows(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", request.headers.get("X-Api-Key", ""))
        return given.removeprefix("Bearer ") == self.api_key


async def _receive(request: web.Request) -> ReceivedRequest:
    body = await request.read()
    try:
        parsed = json.loads(body) if body else None
    except (ValueError, RecursionError):
        parsed = None
    return ReceivedRequest(
        method=request.method,
        path=request.path,
        query=request.rel_url.raw_query_string,
        headers=request.headers.copy(),
        body=body,
        json=parsed,
    )


def _refuse(message: str, kind: str, status: int) -> web.Response:
    body = {"error": {"message": message, "type": kind, "code": status}}
    return json_response(body, status=status)
