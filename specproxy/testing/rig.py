"""The proxy before a scripted target, and a second target of the same language to ask directly.

    async with proxied(Language(), drafter.adversarial) as rig:
        assert await rig.ask("chat", body) == await rig.alone("chat", body)

Invariant: both targets are the same model and the same server, so whatever differs between
`ask` and `alone`, beyond ids and times, the proxy has done.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from specproxy.server.app import Server
from specproxy.settings import load
from specproxy.target.sse import SSEParser
from specproxy.testing.drafter import Behaviour, ScriptedDrafter, perfect
from specproxy.testing.exchange import Exchange
from specproxy.testing.known import Known
from specproxy.testing.language import Language
from specproxy.testing.oracle import Oracle
from specproxy.testing.polling import until
from specproxy.testing.target import ScriptedTarget

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "native": "/completion",
    "infill": "/infill",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
VARYING = frozenset(
    {
        *("id", "call_id", "item_id", "created", "created_at", "completed_at", "timings"),
        *("id_slot", "cached_tokens", "cache_read_input_tokens", "input_tokens", "tokens_cached"),
    }
)
"""Keys whose values differ between two answers of one server, too: by time, slot and cache."""


@dataclass(frozen=True)
class Answer:
    """What a client got. Equal when status, type and levelled content are.

    Attributes:
        raw: the body, as far as it came.
        whole: it ended as HTTP says a body ends.
    """

    status: int
    content_type: str
    content: Any = field(repr=False)
    whole: bool
    raw: bytes = field(compare=False)
    headers: Mapping[str, str] = field(compare=False, repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[Any]:
        """The stream's events as they came; the end mark as its text."""
        return [_parsed(event.data) for event in SSEParser().feed(self.raw)]

    @property
    def text(self) -> str:
        """Reasoning and content of an answer or of a stream."""
        if self.content_type != "text/event-stream":
            return _text(self.json)
        return "".join(_text(event) for event in self.events if isinstance(event, dict))


@dataclass
class Rig:
    """The running parts."""

    target: ScriptedTarget
    oracle: Oracle
    drafter: ScriptedDrafter | None
    server: Server
    client: aiohttp.ClientSession

    async def ask(self, kind: str, body: Any, **more: Any) -> Answer:
        """POST through the proxy. `kind`: chat, completions, native or a path."""
        return await self._send(self.server.url, "POST", kind, json=body, **more)

    async def alone(self, kind: str, body: Any, **more: Any) -> Answer:
        """POST to the second target directly."""
        return await self._send(await self.oracle.url(), "POST", kind, json=body, **more)

    async def send_to_target(self, kind: str, body: Any) -> Answer:
        """POST to the proxied target, past the proxy."""
        return await self._send(self.target.url, "POST", kind, json=body)

    async def send(self, method: str, path: str, **more: Any) -> Answer:
        """Any request through the proxy."""
        return await self._send(self.server.url, method, path, **more)

    async def _send(self, url: str, method: str, path: str, **more: Any) -> Answer:
        return await fetch(self.client, method, url + PATHS.get(path, path), **more)

    def at_rest(self) -> bool:
        """Nothing of any answer is left: slots, leases, sequences, sessions, gauges."""
        return not (
            self.target.engine.has_work
            or self.target.engine.num_deferred
            or not self.server.route.is_at_rest
            or (self.drafter is not None and self.drafter.num_open)
        )

    async def rest(self) -> None:
        """Wait until all is at rest."""
        await until(self.at_rest)


@asynccontextmanager
async def proxied(
    language: Language | None = None,
    behaviour: Behaviour = perfect,
    *,
    drafter: ScriptedDrafter | None = None,
    has_draft: bool = True,
    ready: bool = True,
    probed: bool = False,
    pass_ms: float = 0.0,
    poll_s: float = 2.0,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **flags: Any,
) -> AsyncIterator[Rig]:
    """The proxy in seeding mode, unless the target or the drafter forbid it.

    Args:
        ready: wait until the route has learned all; where not, it is probed.
        probed: let the route find out by asking what this rig knows of the target.
        pass_ms: of the proxied target, once the route is ready.
        settings: sections of the settings, beside the target's URL.
        flags: of both targets.
    """
    language = language or Language()
    if drafter is None and has_draft:
        drafter = ScriptedDrafter(language, behaviour)
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(ScriptedTarget(language, **flags))
        oracle = await stack.enter_async_context(Oracle(ScriptedTarget(language, **flags)))
        sections: dict[str, dict[str, Any]] = {
            "target": {"url": target.url},
            "listen": {"port": 0},
            "seeding": {"warm": "never", "n_match": expected_n_match(**flags)},
        }
        for name, section in (settings or {}).items():
            sections[name] = {**sections.get(name, {}), **section}
        finder = None if probed or not ready else Known(target)
        server = Server(load(None, **sections), drafter, finder=finder)
        server.route.poll_s = poll_s
        await stack.enter_async_context(server)
        client = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
        if ready:
            await until(server.route.ready.is_set)
            await until(lambda: not target.engine.has_work)  # the probe leaves its last answer
            target.clock.pass_ms = pass_ms
            target.requests.clear()
            del target.passes[:]
        yield Rig(target, oracle, drafter, server, client)


def expected_n_match(*, has_ngram_pool: bool = True, n_match: int = 4, **_: Any) -> int | None:
    """What the probe is told to expect of a target with these flags, so that rigs start soon."""
    return n_match if has_ngram_pool else None


async def send(client: aiohttp.ClientSession, url: str, exchange: Exchange) -> Answer:
    """One request of the catalogue to the server at `url`."""
    return await fetch(client, exchange.method, url + exchange.path, **exchange.sent)


async def fetch(client: aiohttp.ClientSession, method: str, url: str, **more: Any) -> Answer:
    """Any request, and all of its answer that comes."""
    async with client.request(method, url, allow_redirects=False, **more) as response:
        raw, whole = b"", True
        try:
            async for chunk in response.content.iter_any():
                raw += chunk
        except aiohttp.ClientError:
            whole = False
        kind = response.content_type
        content = _levelled_body(raw, kind)
        return Answer(response.status, kind, content, whole, raw, response.headers.copy())


def levelled(value: Any) -> Any:
    """`value` without what differs between any two answers."""
    if isinstance(value, dict):
        return {key: levelled(inner) for key, inner in value.items() if key not in VARYING}
    if isinstance(value, list):
        return [levelled(inner) for inner in value]
    return value


def _levelled_body(raw: bytes, content_type: str) -> Any:
    if content_type == "text/event-stream":
        return [levelled(_parsed(event.data)) for event in SSEParser().feed(raw)]
    try:
        return levelled(json.loads(raw))
    except ValueError:
        return raw


def _parsed(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data


def _text(event: Any) -> str:
    if "content" in event:
        return str(event["content"])
    text = ""
    for choice in event.get("choices", ()):
        message = choice.get("delta") or choice.get("message") or {}
        text += message.get("reasoning_content") or ""
        text += message.get("content") or choice.get("text") or ""
    return text
