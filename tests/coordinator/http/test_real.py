"""The coordinator against llama-server, on one model: what clients get is the same.

Greedy, and both read prompts in the same way, so that only near-ties may differ: those are shown
to be ties by llama-server's own logprobs.
"""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from specproxy.coordinate import listening
from specproxy.coordinator.app import create_app
from specproxy.coordinator.build import build, find_devices
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import ChildProcess, free_ports
from specproxy.settings import CoordinatorSettings
from specproxy.target.sse import SSEParser
from specproxy.testing.rig import PATHS, levelled
from tests.coordinator.http.conftest import UNLIKE

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

CONTEXT_TOKENS = 2048
TIE_GAP = 0.1
"""Logprobs this close may change places with the shape of a batch."""
LOGPROB_TOLERANCE = 0.05
NAMES = frozenset({"model", "generation_settings", "draft_n", "prompt_tokens_details"})


@dataclass
class Servers:
    llama: str
    ours: str
    client: aiohttp.ClientSession

    async def ask(self, url: str, kind: str, body: dict[str, Any]) -> Any:
        async with self.client.post(url + PATHS.get(kind, kind), json=body) as response:
            raw = await response.read()
            assert response.status == 200, raw
            if response.content_type == "text/event-stream":
                return [
                    json.loads(event.data) if event.data != "[DONE]" else event.data
                    for event in SSEParser().feed(raw)
                ]
            return json.loads(raw)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        (llama_port, port) = free_ports(2)
        child = await ChildProcess.start(
            "llama-server",
            [
                *(binaries.server, "-m", demo_models.draft, "--port", str(llama_port)),
                *("-c", str(CONTEXT_TOKENS), "-np", "2", "--kv-unified", "-t", "1", "-tb", "1"),
                *("--cache-ram", "0", "--no-ui"),
            ],
            tmp_path_factory.mktemp("real") / "llama-server.log",
        )
        stack.push_async_callback(child.aclose)
        settings = CoordinatorSettings(
            model=demo_models.draft, context_tokens=CONTEXT_TOKENS, num_answers=2
        )
        model = build(settings, find_devices(settings))
        stack.push_async_callback(model.engine.aclose)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
        await stack.enter_async_context(listening(create_app(model), listener))
        found = Servers(f"http://127.0.0.1:{llama_port}", f"http://127.0.0.1:{port}", client)

        async def is_ready() -> bool:
            try:
                async with client.get(f"{found.llama}/health") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        await child.wait_until(is_ready, timeout_s=60)
        yield found


MESSAGES = [
    [{"role": "user", "content": "Name three colours."}],
    [{"role": "user", "content": "Écris une phrase sur la mer, avec un émoji."}],
    [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "What is the capital of France?"},
    ],
    [{"role": "user", "content": "Begin."}, {"role": "assistant", "content": "Once upon"}],
]
PROMPTS = ["The sea", "def fibonacci(n):\n", "1, 2, 3, 4,"]
GREEDY = {"temperature": 0, "max_tokens": 24, "cache_prompt": False}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"chat {i}": ("chat", {"messages": one, **GREEDY}) for i, one in enumerate(MESSAGES)},
    **{f"text {i}": ("completions", {"prompt": one, **GREEDY}) for i, one in enumerate(PROMPTS)},
    "native": ("native", {"prompt": PROMPTS[0], **GREEDY, "return_tokens": True}),
    "native probs": ("native", {"prompt": PROMPTS[1], **GREEDY, "n_probs": 3}),
    "chat probs": (
        "chat",
        {"messages": MESSAGES[0], **GREEDY, "logprobs": True, "top_logprobs": 3},
    ),
    "stop": ("completions", {"prompt": PROMPTS[2], **GREEDY, "stop": [" 8"]}),
    "stop in a token": ("native", {"prompt": PROMPTS[2], **GREEDY, "stop": [", 7"], "n_probs": 1}),
    "penalties": ("native", {"prompt": PROMPTS[0], **GREEDY, "repeat_penalty": 1.3}),
    "bias": ("native", {"prompt": PROMPTS[0], **GREEDY, "logit_bias": [[" of", False]]}),
    "grammar": (
        "chat",
        {"messages": MESSAGES[0], **GREEDY, "grammar": 'root ::= ("red" | "blue") " sea"'},
    ),
    "schema": (
        "chat",
        {
            "messages": MESSAGES[2],
            **GREEDY,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "schema": {"type": "object", "properties": {"city": {"type": "string"}}}
                },
            },
        },
    ),
    "verbose": ("chat", {"messages": MESSAGES[2], **GREEDY, "verbose": True}),
    "ids": ("native", {"prompt": [1, 2, 500, 600], **GREEDY}),
    "ignore eos": ("chat", {"messages": MESSAGES[2], **GREEDY, "ignore_eos": True}),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
async def test_answers_are_the_same(servers: Servers, name: str, stream: bool) -> None:
    kind, body = REQUESTS[name]
    body = {**body, "stream": stream}
    expected = _alike(levelled(await servers.ask(servers.llama, kind, body)))
    found = _alike(levelled(await servers.ask(servers.ours, kind, body)), exact=True)
    if found != expected:
        assert await _ends_in_a_tie(servers, kind, body), _difference(found, expected)


@pytest.mark.parametrize("name", ["seeded", "seeded with many samplers"])
async def test_seeded_answers_are_the_same(servers: Servers, name: str) -> None:
    more = {"top_n_sigma": 2.0, "typical_p": 0.95, "repeat_penalty": 1.1} if "many" in name else {}
    same = 0
    for seed in range(4):
        body = {"prompt": PROMPTS[0], "n_predict": 16, "seed": seed, "cache_prompt": False, **more}
        expected = await servers.ask(servers.llama, "native", body)
        found = await servers.ask(servers.ours, "native", body)
        same += expected["content"] == found["content"]
    assert same >= 3  # a draw at the border of two tokens may fall to either side


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": "The sea 🚀 <|im_end|>", "with_pieces": True}),
        ("/detokenize", {"tokens": [1, 2, 500, 600]}),
        *(("/apply-template", {"messages": one}) for one in MESSAGES),
        ("/v1/chat/completions/input_tokens", {"messages": MESSAGES[0]}),
    ],
)
async def test_token_routes_are_the_same(servers: Servers, path: str, body: Any) -> None:
    expected = await servers.ask(servers.llama, path, body)
    assert await servers.ask(servers.ours, path, body) == expected


async def _ends_in_a_tie(servers: Servers, kind: str, body: dict[str, Any]) -> bool:
    """Whether the answers differ first where llama-server's two best are about the same."""
    if kind == "chat":
        asked = {key: body[key] for key in ("messages", "tools") if key in body}
        prompt = (await servers.ask(servers.llama, "/apply-template", asked))["prompt"]
    else:
        prompt = body["prompt"]
    body = {
        **{key: value for key, value in body.items() if key not in ("messages", "logprobs")},
        "prompt": prompt,
        "stream": False,
        "n_probs": 2,
        "return_tokens": True,
    }
    if "response_format" in body:
        return False
    expected = await servers.ask(servers.llama, "native", body)
    found = await servers.ask(servers.ours, "native", body)
    pairs = zip(expected["tokens"], found["tokens"], strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return False
    best, second = expected["completion_probabilities"][at]["top_logprobs"]
    return bool(best["logprob"] - second["logprob"] < TIE_GAP)


def _alike(value: Any, *, exact: bool = False) -> Any:
    """Without names; logprobs compare only as well as batches of another shape allow."""
    if isinstance(value, dict):
        return {
            key: _about(inner) if key == "logprob" and not exact else _alike(inner, exact=exact)
            for key, inner in value.items()
            if key not in UNLIKE | NAMES
        }
    if isinstance(value, list):
        return [_alike(inner, exact=exact) for inner in value]
    return value


def _about(logprob: float) -> Any:
    return pytest.approx(logprob, abs=LOGPROB_TOLERANCE)


def _difference(found: Any, expected: Any) -> str:
    ours, theirs = json.dumps(found, default=str), json.dumps(expected, default=str)
    return f"ours:\n{ours}\nllama-server's:\n{theirs}"
