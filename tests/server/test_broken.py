"""Answers that go wrong: told as errors, never as a clean end, never as another answer."""

import json
from typing import Any

import pytest

from specproxy.core.tasks import spawn
from specproxy.testing import Break, CannedAnswer, Language, StreamFault, drafter, until
from specproxy.testing.rig import Rig, proxied

KINDS = ("chat", "completions", "native")
LANGUAGE = Language(mean_length=0)


def asking(kind: str, **more: Any) -> dict[str, Any]:
    if kind == "chat":
        messages = [{"role": "user", "content": "Hi"}]
        return {"messages": messages, "max_tokens": 20, "temperature": 0, **more}
    limit = "n_predict" if kind == "native" else "max_tokens"
    return {"prompt": "Hi", limit: 20, "temperature": 0, **more}


def patience(fault: Break) -> dict[str, Any]:
    """The limit of silence: short only where it is what ends the answer."""
    return {"target": {"idle_s": 0.1 if fault is Break.SILENCE else 30.0}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", Break)
async def test_a_broken_stream_ends_with_an_error(fault: Break, kind: str) -> None:
    async with proxied(LANGUAGE, settings=patience(fault)) as rig:
        body = asking(kind, stream=True)
        right = await rig.alone(kind, body)
        for after_events in (2, 100):
            rig.target.faults.stream = StreamFault(fault, after_events)
            got = await rig.ask(kind, body)
            assert (got.status, got.whole) == (200, False)
            *begun, error = got.content
            assert error["error"]["source"] == "specproxy"
            assert error["error"]["message"]
            assert begun == right.content[: len(begun)]
            assert b"[DONE]" not in got.raw
            assert not any(is_finish(event) for event in begun)
            await rig.rest()
        rig.target.faults.clear()
        assert await rig.ask(kind, body) == right


def is_finish(event: Any) -> bool:
    return bool(event.get("stop")) or any(
        choice["finish_reason"] for choice in event.get("choices", ())
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", Break)
async def test_a_broken_whole_answer_is_a_bad_gateway(fault: Break, kind: str) -> None:
    async with proxied(LANGUAGE, settings=patience(fault)) as rig:
        rig.target.faults.stream = StreamFault(fault, after_events=2)
        got = await rig.ask(kind, asking(kind))
        assert (got.status, got.whole) == (502, True)
        assert (got.json["error"]["type"], got.json["error"]["code"]) == ("upstream_error", 502)
        await rig.rest()


@pytest.mark.parametrize("has_draft", [True, False])
async def test_a_stopped_proxy_ends_its_streams_with_an_error(has_draft: bool) -> None:
    async with proxied(LANGUAGE, has_draft=has_draft, ready=has_draft, pass_ms=5.0) as rig:
        body = asking("chat", stream=True, max_tokens=2000, ignore_eos=True)
        asked = spawn(rig.ask("chat", body), name="ask")
        await rig.target.wait_for("/v1/chat/completions")
        await until(lambda: len(rig.target.passes) > 60)
        rig.server.route.client.stop()
        got = await asked
        assert (got.status, got.whole) == (200, False)
        assert "specproxy was stopped" in got.content[-1]["error"]["message"]
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_before_the_first_token_keeps_its_status(kind: str, stream: bool) -> None:
    async with proxied(LANGUAGE, probed=True, n_ctx=64) as rig:
        long = asking(kind, stream=stream)
        if kind == "chat":
            long["messages"][0]["content"] = "x" * 100
        else:
            long["prompt"] = "x" * 100
        wrong = asking(kind, stream=stream, temperature="warm")
        for body, message in ((long, "exceeds"), (wrong, "must be number")):
            got = await rig.ask(kind, body)
            assert got == await rig.alone(kind, body)
            assert (got.status, got.content_type) == (400, "application/json")
            assert message in got.json["error"]["message"]
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_target_that_loads_or_is_busy(stream: bool) -> None:
    async with proxied(LANGUAGE) as rig:
        busy = {"error": {"code": 503, "message": "busy", "type": "unavailable_error"}}
        headers = {"Retry-After": "3"}
        rig.target.faults.answer = CannedAnswer(503, json.dumps(busy).encode(), headers=headers)
        got = await rig.ask("chat", asking("chat", stream=stream))
        assert (got.status, got.json, got.headers["Retry-After"]) == (503, busy, "3")
        rig.target.faults.clear()
        rig.target.faults.loading = True
        got = await rig.ask("chat", asking("chat", stream=stream))
        assert got.status == 503
        assert got.json["error"]["message"] == "Loading model"


async def canned_stream(rig: Rig, kind: str, stream: bool, *events: Any) -> Any:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    rig.target.faults.match = lambda request: request.streams
    rig.target.faults.answer = CannedAnswer(200, body, "text/event-stream")
    return await rig.ask(kind, asking(kind, stream=stream)), body


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_within_a_stream_is_relayed_and_not_ended_well(kind: str) -> None:
    error = {"error": {"code": 503, "message": "no room", "type": "server_error"}}
    async with proxied(LANGUAGE) as rig:
        got, sent = await canned_stream(rig, kind, True, error)
        assert got.raw == sent
        got, _ = await canned_stream(rig, kind, False, error)
        assert (got.status, got.json) == (503, error)


@pytest.mark.parametrize("kind", KINDS)
async def test_events_of_a_stranger(kind: str) -> None:
    async with proxied(LANGUAGE) as rig:
        for event in ({}, {"choices": 1}, {"choices": [{}]}, {"content": 5, "tokens": "x"}, 7):
            got, _ = await canned_stream(rig, kind, True, event)
            assert (got.status, got.whole) == (200, False)
            assert got.content[-1]["error"]["source"] == "specproxy"
            got, _ = await canned_stream(rig, kind, False, event)
            assert got.status == 502
        await rig.rest()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [True, False])
async def test_bytes_one_by_one_and_pings(kind: str, stream: bool) -> None:
    language = Language(mean_length=0).with_script("Hi", "Hello 😀 日本 naïve 🚀")
    async with proxied(language) as rig:
        body = asking(kind, stream=stream)
        right = await rig.alone(kind, body)
        rig.target.faults.split_bytes = rig.target.faults.pings = True
        got = await rig.ask(kind, body)
        assert got == right
        assert got.raw.startswith(b":\n\ndata: ") == stream


async def test_every_byte_is_relayed() -> None:
    body = asking("chat", stream=True)
    raw = b": ping\n\nevent: x\ndata: 1\r\n\r\nid: 4\nretry: 5\n\n"
    good = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    end = b"data: [DONE]\n\n"
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.match = lambda request: request.streams
        sent = raw.replace(b"data: 1", b"data: {}") + good + end
        rig.target.faults.answer = CannedAnswer(200, sent, "text/event-stream")
        assert (await rig.ask("chat", body)).raw == sent


async def test_a_vocabulary_that_fails_does_not_touch_the_answer() -> None:
    """The follower asks the draft's vocabulary while the answer is relayed."""

    class Failing(type(LANGUAGE.vocabulary)):  # type: ignore[misc]
        broken = False

        def token_of(self, piece: bytes) -> int | None:
            if self.broken:
                raise OSError("the model's file is gone")
            return super().token_of(piece)

    vocabulary = Failing()
    made = drafter.ScriptedDrafter(Language(vocabulary, mean_length=0))
    async with proxied(Language(mean_length=0), drafter=made) as rig:
        vocabulary.broken = True
        for stream in (True, False):
            body = asking("chat", stream=stream)
            assert await rig.ask("chat", body) == await rig.alone("chat", body)
        await rig.rest()
