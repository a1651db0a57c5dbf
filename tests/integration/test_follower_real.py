"""The follower against a real stream: the ids it finds are those that the target says it took."""

import json
from typing import Any

import pytest

from specproxy.core.follower import Follower
from specproxy.target.client import JSON_HEADERS, TargetClient
from specproxy.target.deltas import Delta, deltas
from specproxy.target.sse import SSEParser

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NUM_TOKENS = 24
PROMPTS = (
    "The sea was calm and the ship sailed",
    "Repeat: 🦊🐻🦊🐻🦊🐻🦊🐻🦊🐻",
    "你好世界,你好世界,你好世界,你好世界,",
    "naïve café über élan, naïve café über élan, naïve café",
)


def body(prompt: str) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "n_predict": NUM_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "return_tokens": True,
        "cache_prompt": False,
        "id_slot": 0,
    }


async def streamed(client: TargetClient, prompt: str) -> list[Delta]:
    data = json.dumps({**body(prompt), "stream": True}).encode()
    parser, found = SSEParser(), []
    async with client.request("POST", "/completion", headers=JSON_HEADERS, data=data) as response:
        async for chunk in client.chunks(response):
            found += [deltas("native", json.loads(event.data)) for event in parser.feed(chunk)]
    return found


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_its_ids_are_the_targets(prompt: str, proxied: Any, plain: TargetClient) -> None:
    answer = await plain.json("POST", "/completion", body(prompt))
    events = await streamed(plain, prompt)
    truth: list[int] = answer["tokens"]
    assert len(truth) == NUM_TOKENS
    for with_ids in (True, False):
        follower = Follower(proxied.drafter.vocabulary)
        followed: list[int] = []
        for delta in events:
            tokens = delta.tokens if with_ids else None
            followed += follower.follow(delta.text, tokens, truth[len(followed) :])
        assert followed == truth[: len(followed)]
        # a character that the answer's end cuts in two is never said
        assert NUM_TOKENS - len(followed) < 4


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_without_a_draft_it_guesses_the_same_text(
    prompt: str, proxied: Any, plain: TargetClient
) -> None:
    vocabulary = proxied.drafter.vocabulary
    events = await streamed(plain, prompt)
    follower = Follower(vocabulary)
    followed = [
        token for delta in events for token in follower.follow(delta.text, None, expected=())
    ]
    said = b"".join(map(vocabulary.piece, followed)).decode()
    assert said == "".join(delta.text for delta in events)
