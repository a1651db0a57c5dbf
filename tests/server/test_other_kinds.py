"""Tool calls, responses and messages are followed, too; made-up probabilities are not handed on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from specproxy.testing import Break, CannedAnswer, Language, StreamFault
from specproxy.testing.differential import CALLS, differs
from specproxy.testing.rig import PATHS, Rig, proxied
from specproxy.testing.toy_catalogue import TOOLS

LANGUAGE = Language(mean_length=0).with_script("call", CALLS, chat=True)
CALLING = {"messages": [{"role": "user", "content": "call"}], "temperature": 0, "max_tokens": 200}
HI = [{"role": "user", "content": "Tell me of the sea"}]
LONG: dict[str, dict[str, Any]] = {
    "responses": {"input": "Tell me of the sea", "max_output_tokens": 80},
    "messages": {"messages": HI, "max_tokens": 80, "system": "Be kind."},
}


async def check_followed(rig: Rig, kind: str, body: dict[str, Any]) -> None:
    """Equal to the target alone, and sped up."""
    got = await rig.ask(kind, body)
    assert differs(got, await rig.alone(kind, body)) is None
    assert got.headers["x-specproxy-mode"] == "seeding"
    await rig.rest()
    counts = rig.server.route.counts
    assert rig.target.engine.totals.num_accepted > 15
    assert counts.num_answers == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_tool_calls_are_followed(stream: bool) -> None:
    async with proxied(LANGUAGE, pass_ms=4.0) as rig:
        await check_followed(rig, "chat", {**CALLING, "tools": TOOLS, "stream": stream})


@pytest.mark.parametrize("kind", LONG)
async def test_other_streams_are_followed(kind: str) -> None:
    async with proxied(LANGUAGE, pass_ms=4.0) as rig:
        body = {**LONG[kind], "temperature": 0, "stream": True}
        await check_followed(rig, kind, body)
        (request,) = rig.target.received(PATHS[kind])
        assert ("id_slot" in request.json) == (kind == "responses")  # the other would be dropped


@pytest.mark.parametrize("kind", LONG)
async def test_several_choices_end_well(kind: str) -> None:
    """Responses have them without saying which event is of which; messages have one."""
    async with proxied(LANGUAGE) as rig:
        body = {**LONG[kind], "temperature": 0, "stream": True, "n": 2}
        got = await rig.ask(kind, body)
        assert got.whole
        assert b'"error"' not in got.raw
        alone = await rig.alone(kind, body)
        assert len(got.events) == len(alone.events)
        await rig.rest()


@pytest.mark.parametrize("kind", LONG)
async def test_other_plain_answers_pass_through(kind: str) -> None:
    async with proxied(LANGUAGE) as rig:
        body = {**LONG[kind], "temperature": 0}
        got = await rig.ask(kind, body)
        assert differs(got, await rig.alone(kind, body)) is None
        assert got.headers["x-specproxy-mode"] == "passthrough"


@pytest.mark.parametrize("num_tokens", [5, 12, 20, 30, 200])
@pytest.mark.parametrize("num_passes", [1, 2])
async def test_calls_cut_by_the_limit_are_called_so(num_tokens: int, num_passes: int) -> None:
    """However many tokens a pass brings, and wherever the limit falls."""
    async with proxied(LANGUAGE) as rig:
        for _ in range(num_passes):  # the second time the target's pool knows it all
            body = {**CALLING, "tools": TOOLS, "stream": True, "max_tokens": num_tokens}
            got = await rig.ask("chat", body)
            assert differs(got, await rig.alone("chat", body)) is None
        ends = [one["choices"][0]["finish_reason"] for one in got.content[1:-1] if one["choices"]]
        assert ends[-1] == ("tool_calls" if num_tokens == 200 else "length")
        if num_tokens == 200:
            assert list(joined_calls(got.content)) == [
                ("weather", '{"city": "Pan", "on": {"x": 1}}'),
                ("clock", "{}"),
            ]


def joined_calls(events: list[Any]) -> Iterator[tuple[str, str]]:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in events:
        for choice in (event or {}).get("choices", ()) if isinstance(event, dict) else ():
            for call in choice["delta"].get("tool_calls", ()):
                function = call["function"]
                index = call["index"]
                names[index] = names.get(index, "") + function.get("name", "")
                arguments[index] = arguments.get(index, "") + function.get("arguments", "")
    yield from ((names[index], arguments[index]) for index in sorted(names))


async def test_messages_are_relayed_byte_for_byte() -> None:
    raw = (
        b'event: message_start\ndata: {"type": "message_start",  "message": {}}\n\n'
        b'event: ping\ndata: {"type": "ping"}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "x", "x-api-key": "mine"}
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.answer = CannedAnswer(200, raw, "text/event-stream")
        body = {**LONG["messages"], "stream": True}
        got = await rig.send("POST", "/v1/messages?beta=true", json=body, headers=headers)
        assert (got.raw, got.whole) == (raw, True)
        (request,) = rig.target.received("/v1/messages")
        assert request.query == "beta=true"
        assert {name: request.headers[name] for name in headers} == headers


async def test_errors_of_messages_have_anthropics_shape() -> None:
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.stream = StreamFault(Break.RESET, after_events=3)
        got = await rig.ask("messages", {**LONG["messages"], "stream": True})
        assert not got.whole
        assert b"event: error\ndata: " in got.raw
        assert got.events[-1]["type"] == "error"
        assert set(got.events[-1]["error"]) >= {"type", "message"}
        await rig.target.down()
        got = await rig.ask("messages", LONG["messages"])
        assert (got.status, got.json["type"]) == (503, "error")


# -- probabilities ------------------------------------------------------------------------------

PROBABILITIES: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"messages": HI, "logprobs": True, "top_logprobs": 3}),
    ("completions", {"prompt": "The sea", "logprobs": 3}),
    ("native", {"prompt": "The sea", "n_probs": 3}),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("kind", "body"), PROBABILITIES)
async def test_right_probabilities_pass(kind: str, body: dict[str, Any], stream: bool) -> None:
    async with proxied(LANGUAGE, probed=True, has_ngram_pool=False) as rig:
        body = {**body, "max_tokens": 16, "temperature": 0, "stream": stream}
        got = await rig.ask(kind, body)
        assert got == await rig.alone(kind, body)
        assert b'"top_logprobs":[{' in got.raw


@pytest.mark.parametrize(("kind", "body"), PROBABILITIES[1:])
async def test_made_up_probabilities_do_not(kind: str, body: dict[str, Any]) -> None:
    """In a stream the target leaves them out; in a plain answer it makes them up."""
    async with proxied(LANGUAGE, pass_ms=3.0) as rig:
        body = {**body, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
        await rig.ask(kind, {**body, "logprobs": None, "n_probs": 0})
        await rig.rest()  # now the pool knows the answer and proposes it
        assert b'"top_logprobs":[]' in (await rig.send_to_target(kind, body)).raw
        got = await rig.ask(kind, body)
        assert (got.status, got.whole) == (400, True)
        assert got.json["error"]["type"] == "invalid_request_error"
        assert "without --spec-type" in got.json["error"]["message"]
        got = await rig.ask(kind, {**body, "stream": True})
        assert (got.status, got.whole) == (200, True)
        assert b'"top_logprobs":[]' not in got.raw
        await rig.rest()


async def test_a_stream_with_made_up_probabilities_ends_with_an_error() -> None:
    entry = {"token": "a", "logprob": 0.0, "bytes": [97], "top_logprobs": []}
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [entry]}}
    event = {"choices": [{**choice, "finish_reason": None}]}
    raw = b"data: " + json.dumps(event).encode() + b"\n\n"
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.answer = CannedAnswer(200, raw, "text/event-stream")
        got = await rig.ask("chat", {**PROBABILITIES[0][1], "stream": True})
        assert (got.status, got.whole) == (200, False)
        assert "without --spec-type" in got.events[0]["error"]["message"]
