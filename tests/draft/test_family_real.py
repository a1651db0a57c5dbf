"""The same-family check against a real llama-server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from specproxy.draft.family import check_family
from specproxy.errors import VocabularyMismatch
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.binaries import LlamaBinaries

pytestmark = pytest.mark.real


class HttpTokens:
    """`TargetTokens` over plain HTTP."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def tokenize(self, content: str, *, add_special: bool, parse_special: bool) -> list[int]:
        body = {"content": content, "add_special": add_special, "parse_special": parse_special}
        async with self._http.post("/tokenize", json=body) as answer:
            return (await answer.json())["tokens"]

    async def detokenize(self, tokens: Sequence[int]) -> str:
        async with self._http.post("/detokenize", json={"tokens": list(tokens)}) as answer:
            return (await answer.json())["content"]

    async def num_tokens(self) -> int:
        async with self._http.get("/v1/models") as answer:
            return (await answer.json())["data"][0]["meta"]["n_vocab"]


@pytest.fixture
async def target(binaries: LlamaBinaries, draft_model_path: Path) -> AsyncIterator[HttpTokens]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["-m", draft_model_path, "-c", 256, "-t", 1, "-np", 1, "--no-warmup", "--port", port]
    process = await asyncio.create_subprocess_exec(
        binaries.server,
        *map(str, flags),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            await ready(http, process)
            yield HttpTokens(http)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ready(http: aiohttp.ClientSession, process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:
        try:
            async with http.get("/health") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.1)
    pytest.fail("llama-server did not start")


class Changed:
    """The draft's vocabulary with two tokens in each other's place."""

    def __init__(self, vocabulary: ModelVocabulary, first: int, second: int) -> None:
        self._vocabulary = vocabulary
        self._places = {first: second, second: first}

    def __len__(self) -> int:
        return len(self._vocabulary)

    def __getattr__(self, name: str) -> object:
        return getattr(self._vocabulary, name)

    def piece(self, token: int) -> bytes:
        return self._vocabulary.piece(self._places.get(token, token))


async def test_the_same_model_passes_and_a_changed_one_does_not(
    target: HttpTokens, vocabulary: ModelVocabulary
) -> None:
    names = {"draft_name": "draft.gguf", "target_name": "target.gguf"}
    assert await check_family(vocabulary, target, **names) == 49152
    broken = [t for t in range(17, 49152) if is_broken(vocabulary.piece(t))]
    assert len(broken) > 100
    for first, second in ((40_000, 40_001), (broken[10], broken[11]), (broken[-2], broken[-1])):
        with pytest.raises(VocabularyMismatch, match=f"token ({first}|{second}) "):
            await check_family(Changed(vocabulary, first, second), target, **names)  # type: ignore[arg-type]


def is_broken(piece: bytes) -> bool:
    return "\ufffd" in piece.decode("utf-8", "replace")
