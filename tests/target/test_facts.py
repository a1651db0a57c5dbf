"""What a target says of itself, and when it is not (yet) one."""

from collections.abc import AsyncIterator

import pytest

from specproxy.errors import TargetError, TargetUnreachable
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.target.tokens import TargetTokens
from specproxy.testing import CannedAnswer, Language, ScriptedTarget


@pytest.fixture
async def target() -> AsyncIterator[ScriptedTarget]:
    async with ScriptedTarget(num_slots=3, model="toy") as running:
        yield running


@pytest.fixture
async def client(target: ScriptedTarget) -> AsyncIterator[TargetClient]:
    async with TargetClient(TargetSettings(url=target.url)) as running:
        yield running


async def test_facts(target: ScriptedTarget, client: TargetClient) -> None:
    facts = await read_facts(client)
    assert (facts.model, facts.num_slots) == ("toy", 3)
    assert facts.num_vocab == len(target.language.vocabulary)
    assert await read_facts(client) == facts


async def test_another_process_is_another_life(
    target: ScriptedTarget, client: TargetClient
) -> None:
    facts = await read_facts(client)
    await target.down()
    with pytest.raises(TargetUnreachable):
        await read_facts(client)
    await target.up()
    assert await read_facts(client) != facts


async def test_a_target_that_loads_has_no_facts(
    target: ScriptedTarget, client: TargetClient
) -> None:
    target.faults.loading = True
    with pytest.raises(TargetError, match="503"):
        await read_facts(client)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"data":[]}', b'{"data":[{"id":1,"meta":null}]}'])
async def test_another_service_is_named(
    target: ScriptedTarget, client: TargetClient, body: bytes
) -> None:
    target.faults.match = lambda request: request.path == "/v1/models"
    target.faults.answer = CannedAnswer(200, body)
    with pytest.raises(TargetError, match=r"Point target\.url at a llama-server"):
        await read_facts(client)


async def test_tokens_are_the_targets_own(target: ScriptedTarget, client: TargetClient) -> None:
    tokens = TargetTokens(client)
    vocabulary = target.language.vocabulary
    assert await tokens.num_tokens() == len(vocabulary)
    text = "Hello <|im_end|> 😀"
    ids = await tokens.tokenize(text, add_special=True)
    assert ids == vocabulary.tokenize(text, add_special=True, parse_special=True)
    assert await tokens.detokenize(ids) == "<s>" + text


async def test_the_chat_prompt_is_what_the_chat_route_reads(
    target: ScriptedTarget, client: TargetClient
) -> None:
    await target.down()
    await target.up(Language().with_script("Hi", "Hello", chat=True))
    body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}
    prompt = await TargetTokens(client).chat_prompt(body)
    answer = await client.json("POST", "/v1/chat/completions", body)
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    assert prompt == list(target.language.scripts[0][0])
