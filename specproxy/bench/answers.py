"""One measured answer: a streaming chat, timed with the client's clock."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp

from specproxy.bench.stats import Answer
from specproxy.errors import TargetBroken, TargetError
from specproxy.target.client import JSON_HEADERS, TargetClient
from specproxy.target.deltas import Json, deltas
from specproxy.target.sse import SSEParser

CHAT_PATH = "/v1/chat/completions"
OnText = Callable[[str], None]


def chat_body(
    messages: Sequence[dict[str, str]], num_tokens: int, fields: Mapping[str, Any] | None = None
) -> Json:
    """The request that every arm gets: an ordinary client's, greedy, caches as they default.

    Args:
        fields: more of them, or others in their place.
    """
    return {
        "messages": list(messages),
        "max_tokens": num_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **(fields or {}),
    }


async def ask(
    client: TargetClient,
    messages: Sequence[dict[str, str]],
    num_tokens: int,
    *,
    on_text: OnText | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Answer:
    """Ask and read the answer to its end.

    Args:
        client: of a llama-server or of a proxy before one.
        num_tokens: the answer's limit; it may end by itself before.
        on_text: gets each piece of text as it comes.
        fields: see `chat_body`.

    Raises:
        TargetError: it was refused, or broke off.
    """
    data = json.dumps(chat_body(messages, num_tokens, fields)).encode()
    reading = _Reading(on_text)
    async with client.request("POST", CHAT_PATH, headers=JSON_HEADERS, data=data) as response:
        await _check(client, response)
        async for chunk in client.chunks(response):
            reading.hear(chunk)
    return reading.answer(client.name)


async def _check(client: TargetClient, response: aiohttp.ClientResponse) -> None:
    if response.status != 200 or response.content_type != "text/event-stream":
        text = b"".join([chunk async for chunk in client.chunks(response)])
        raise TargetError(
            f"{client.name} answered a chat with {response.status}:"
            f" {text[:200].decode('utf-8', 'replace')}"
        )


class _Reading:
    """An answer while it comes."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._parser = SSEParser()
        self._parts: list[str] = []
        self._started_s = time.perf_counter()
        self._first_s = self._last_s = 0.0
        self._finish_reason = ""
        self._usage: Json = {}
        self._timings: Json = {}

    def hear(self, chunk: bytes) -> None:
        now_s = time.perf_counter()
        for event in self._parser.feed(chunk):
            if event.data != "[DONE]":
                self._add(json.loads(event.data), now_s)

    def _add(self, event: Json, now_s: float) -> None:
        if "error" in event:
            raise TargetBroken(f"The answer broke off: {event['error']}.")
        delta = deltas("chat", event)
        if delta.text:
            self._first_s = self._first_s or now_s
            self._parts.append(delta.text)
            if self._on_text is not None:
                self._on_text(delta.text)
        if delta.finished:
            self._last_s = now_s
            self._finish_reason = str(event["choices"][0]["finish_reason"])
        self._usage = event.get("usage") or self._usage
        self._timings = delta.timings or self._timings

    def answer(self, name: str) -> Answer:
        if not self._finish_reason:
            raise TargetBroken(f"{name} ended its answer before it was complete.")
        timings: dict[str, Any] = self._timings
        num_tokens = int(timings.get("predicted_n") or self._usage.get("completion_tokens", 0))
        return Answer(
            text="".join(self._parts),
            finish_reason=self._finish_reason,
            num_tokens=num_tokens,
            num_prompt=int(self._usage.get("prompt_tokens", 0)),
            num_prompt_read=int(timings.get("prompt_n", 0)),
            num_proposed=int(timings.get("draft_n", 0)),
            num_accepted=int(timings.get("draft_n_accepted", 0)),
            ttft_s=(self._first_s or self._last_s) - self._started_s,
            total_s=self._last_s - self._started_s,
            server_s=float(timings.get("predicted_ms", 0.0)) / 1e3,
        )
