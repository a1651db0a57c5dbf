"""A scripted llama-server and a scripted coordinator of the same language, side by side."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from specproxy.target.sse import SSEParser
from specproxy.testing import Language, ScriptedTarget
from specproxy.testing.coordinator import ScriptedCoordinator
from specproxy.testing.rig import PATHS, levelled

UNLIKE = frozenset({"generation_settings", "system_fingerprint"})
"""What the two say differently by design: how they are built."""


@dataclass(frozen=True)
class Reply:
    """A levelled answer of one of the two."""

    status: int
    content_type: str
    content: Any


@dataclass
class Pair:
    target: ScriptedTarget
    coordinator: ScriptedCoordinator
    client: aiohttp.ClientSession

    async def both(self, kind: str, body: Any) -> tuple[Reply, Reply]:
        """What llama-server's shapes are, and what the coordinator says."""
        return (
            await ask(self.client, self.target.url, kind, body),
            await ask(self.client, self.coordinator.url, kind, body),
        )


async def ask(client: aiohttp.ClientSession, url: str, kind: str, body: Any) -> Reply:
    async with client.post(url + PATHS.get(kind, kind), json=body) as response:
        raw = await response.read()
        if response.content_type == "text/event-stream":
            content: Any = [_parsed(event.data) for event in SSEParser().feed(raw)]
        else:
            content = json.loads(raw)
        return Reply(response.status, response.content_type, _alike(levelled(content)))


@asynccontextmanager
async def paired(language: Language | None = None, **flags: Any) -> AsyncIterator[Pair]:
    language = language or Language()
    async with AsyncExitStack() as stack:
        target = ScriptedTarget(language, has_ngram_pool=False)
        coordinator = ScriptedCoordinator(language, **flags)
        await stack.enter_async_context(target)
        await stack.enter_async_context(coordinator)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        yield Pair(target, coordinator, client)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with paired() as found:
        yield found


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def _parsed(data: str) -> Any:
    return data if data == "[DONE]" else json.loads(data)


def _alike(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _alike(inner) for key, inner in value.items() if key not in UNLIKE}
    if isinstance(value, list):
        return [_alike(inner) for inner in value]
    return value
