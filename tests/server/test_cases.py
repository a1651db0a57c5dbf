"""Faults that people reported of comparable servers, where no other test shows the whole kind.

docs/cases.md says which test covers which case.
"""

import asyncio
import random
import socket
import time
from typing import Any

import pytest
from aiohttp import web

from specproxy.core.tasks import spawn, stop
from specproxy.testing import Break, CannedAnswer, Language, StreamFault, drafter, until
from specproxy.testing.faults import ReceivedRequest
from specproxy.testing.rig import PATHS, Answer, proxied

KINDS = ("chat", "completions", "native")
LANGUAGE = Language(mean_length=0)
TEXTS = {
    "plain": "abcDEFGHIJ and more",
    "diverges": "DEFGHx DEFG",
    "ends on a part": "So it was DEF",
    "last is cut": "Is it?\n",
    "several tokens": "Hello</s>\n\nworld",
    "overlapping": "xxabcab",
    "an emoji": "Hello 😀 world 🚀.",
}
STOPS: list[Any] = [
    ["DEFGHIJ"],
    ["\n"],
    ["</s>\n\n"],
    ["ab", "abc"],
    ["😀"],
    ["o 😀 w"],
    "ab",
    "",
    None,
    [],
    ["a", "b", "c", "D", "H"],
]


def asking(kind: str, num_tokens: int = 20, text: str = "Hi", **more: Any) -> dict[str, Any]:
    if kind == "chat":
        messages = [{"role": "user", "content": text}]
        return {"messages": messages, "max_tokens": num_tokens, "temperature": 0, **more}
    limit = "n_predict" if kind == "native" else "max_tokens"
    return {"prompt": text, limit: num_tokens, "temperature": 0, **more}


def num_tokens_told(answer: Answer) -> int:
    """What the answer says of its tokens."""
    last = [one for one in answer.events if isinstance(one, dict)][-1]
    usage = last.get("usage") or {}
    return int(usage.get("completion_tokens", last.get("tokens_predicted", -1)))


async def test_a2_who_left_the_queue_never_reaches_the_target() -> None:
    async with proxied(LANGUAGE, num_slots=2) as rig:
        rig.target.clock.hold()
        first = spawn(rig.ask("chat", asking("chat", stream=True)), name="first")
        await until(lambda: rig.server.route.num_running == 1)
        others = [spawn(rig.ask("chat", asking("chat")), name=f"{i}") for i in range(3)]
        await until(lambda: rig.server.route.num_waiting == 3)
        for one in others:
            await stop(one)
        made = rig.drafter
        assert made is not None
        await until(lambda: made.num_open <= 2)  # the first one's line and branches, no more
        rig.target.clock.go()
        await first
        await rig.rest()
        assert len(rig.target.received(PATHS["chat"])) == 1


async def test_a6_the_target_dies_refuses_loads_and_works_again() -> None:
    async with proxied(LANGUAGE, probed=True, poll_s=0.02) as rig:
        body = asking("chat", stream=True)
        rig.target.faults.stream = StreamFault(Break.RESET, after_events=10)
        got = await rig.ask("chat", body)
        assert not got.whole
        assert got.events[-1]["error"]["source"] == "specproxy"
        await rig.target.down()
        for _ in range(3):
            got = await rig.ask("chat", body)
            assert (got.status, got.headers["Retry-After"]) == (503, "5")
        await until(lambda: not rig.server.route.ready.is_set())
        rig.target.faults.clear()
        rig.target.faults.loading = True
        await rig.target.up()
        got = await rig.ask("chat", body)
        assert (got.status, got.json["error"]["message"]) == (503, "Loading model")
        assert (await rig.send("GET", "/health")).status == 503  # d18: ready is what it says
        assert (await rig.send("GET", "/specproxy/status")).status == 200
        rig.target.faults.loading = False
        await until(rig.server.route.ready.is_set)
        assert await rig.ask("chat", body) == await rig.alone("chat", body)
        await rig.rest()


@pytest.mark.parametrize("kind", KINDS)
async def test_a7_a_draft_that_falls_silent_costs_no_answer(kind: str) -> None:
    made = drafter.ScriptedDrafter(LANGUAGE, delay_s=3600)
    async with proxied(LANGUAGE, drafter=made, pass_ms=1.0) as rig:
        for stream in (True, False):
            body = asking(kind, stream=stream)
            assert await rig.ask(kind, body) == await rig.alone(kind, body)
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_a9_a10_what_broke_is_not_asked_again(kind: str, stream: bool) -> None:
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.stream = StreamFault(Break.RESET, after_events=6)
        rig.target.faults.remaining = 1
        got = await rig.ask(kind, asking(kind, stream=stream))
        assert not got.whole or got.status == 502
        asked = [one for one in rig.target.received(PATHS[kind]) if not is_seed(one)]
        assert len(asked) == 1


def is_seed(request: ReceivedRequest) -> bool:
    return isinstance(request.json.get("prompt"), list)


@pytest.mark.parametrize("kind", KINDS)
async def test_b1_b3_counts_are_right_however_blocks_fall(kind: str) -> None:
    """Delivered, told and counted: the same, and the target's own, whatever the limit."""
    options = {"stream_options": {"include_usage": True}} if kind != "native" else {}
    async with proxied(LANGUAGE, pass_ms=0.5) as rig:
        route, told = rig.server.route, 0
        for num_tokens in range(1, 21):
            for stop_words in ([], ["o"]):
                body = asking(kind, num_tokens, stream=True, stop=stop_words, **options)
                got = await rig.ask(kind, body)
                right = await rig.alone(kind, body)
                assert got == right
                assert num_tokens_told(got) <= num_tokens
                told += num_tokens_told(got)
                await rig.rest()
                assert route.counts.num_generated == told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEXTS)
async def test_b4_stop_strings_in_every_way(kind: str, name: str) -> None:
    language = Language().with_script("Hi", TEXTS[name]).with_script("Hi", TEXTS[name], chat=True)
    async with proxied(language) as rig:
        for stop_words in STOPS:
            texts = []
            for stream in (True, False):
                body = asking(kind, 60, stream=stream, stop=stop_words)
                got = await rig.ask(kind, body)
                assert got == await rig.alone(kind, body), stop_words
                if got.status == 200:
                    texts.append(got.text)
            assert len(set(texts)) <= 1, stop_words
            words = [stop_words] if isinstance(stop_words, str) else stop_words or []
            cuts = [TEXTS[name].find(word) for word in words if word and word in TEXTS[name]]
            if texts and cuts:
                assert texts[0] == TEXTS[name][: min(cuts)]


@pytest.mark.parametrize("key", range(8))
async def test_b6_any_language_and_any_draft(key: int) -> None:
    rng = random.Random(key)
    behaviour = rng.choice(
        [
            drafter.adversarial,
            drafter.babbling(rng),
            drafter.right_then_wrong(rng.randrange(1, 5)),
            drafter.noisy(0.5, rng),
            drafter.repeats_last,
        ]
    )
    async with proxied(Language(key=key, loops=key % 2 == 0), behaviour) as rig:
        for index in range(6):  # each kind, streamed and not
            kind = KINDS[index % 3]
            body = asking(kind, 30, f"{key} {index}", stream=index % 2 == 0)
            assert await rig.ask(kind, body) == await rig.alone(kind, body)
        await rig.rest()


@pytest.mark.parametrize("seeded", [True, False])
async def test_c9_no_limit_on_an_answer_in_all(seeded: bool) -> None:
    """It may take longer than any limit, as long as something comes."""
    first_byte_s = 0.5 if seeded else 60.0  # nothing comes of a whole answer before its end
    limits = {"connect_s": 0.5, "first_byte_s": first_byte_s, "idle_s": 0.5}
    settings = {"target": limits}
    async with proxied(LANGUAGE, drafter.adversarial, pass_ms=50.0, settings=settings) as rig:
        bodies = [
            asking(
                "chat", 14, stream=stream, ignore_eos=True, **({} if seeded else {"id_slot": slot})
            )
            for slot, stream in enumerate((True, False))
        ]
        began_s = time.monotonic()
        answers = await asyncio.gather(*(rig.ask("chat", body) for body in bodies))
        assert time.monotonic() - began_s > 0.5
        assert answers == [await rig.alone("chat", body) for body in bodies]
        assert all((got.status, got.whole) == (200, True) for got in answers)


REFUSALS = [
    *((status, b'{"error": {"message": "no", "x_odd": 1}}') for status in (400, 401, 404, 413)),
    *((status, b'{"error": {"message": "no", "x_odd": 1}}') for status in (429, 500, 503)),
    (502, b"<html>Bad gateway</html>"),
    (500, b""),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("status", "raw"), REFUSALS)
async def test_c11_a_refusal_keeps_its_status_and_is_json(
    status: int, raw: bytes, stream: bool
) -> None:
    kind = "application/json" if raw.startswith(b"{") else "text/html"
    async with proxied(LANGUAGE) as rig:
        rig.target.faults.answer = CannedAnswer(status, raw, kind, {"Retry-After": "7"})
        for more in ({}, {"n": 2}):
            got = await rig.ask("chat", asking("chat", stream=stream, **more))
            assert (got.status, got.whole) == (status, True)
            assert got.headers["Retry-After"] == "7"
            assert got.content_type == "application/json"
            assert got.json["error"]["message"]
            if kind == "application/json":
                assert got.raw == raw
        await rig.rest()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_d12_a_full_context_within_an_answer_is_a_length(kind: str, stream: bool) -> None:
    async with proxied(LANGUAGE, probed=True, n_ctx=64) as rig:
        body = asking(kind, 500, "x" * 30, stream=stream)
        got = await rig.ask(kind, body)
        assert got == await rig.alone(kind, body)
        assert got.status == 200
        assert b'"length"' in got.raw or b'"limit"' in got.raw
        await rig.rest()
        assert rig.server.route.answers.speculates


async def test_d18_without_its_draft_the_proxy_is_slower_and_not_ill() -> None:
    made = drafter.ScriptedDrafter(LANGUAGE)
    async with proxied(LANGUAGE, drafter=made) as rig:
        made.kill()
        assert (await rig.send("GET", "/health")).status == 200
        (route,) = (await rig.send("GET", "/specproxy/status")).json["routes"]
        assert (route["ready"], route["draft_alive"]) == (True, False)
        assert (await rig.ask("chat", asking("chat"))).status == 200


@pytest.mark.parametrize("number", [b"null", b"-1e39", b"-3.4028234663852886e+38", b"1E400"])
@pytest.mark.parametrize("stream", [True, False])
async def test_d19_odd_numbers_pass_as_they_are(stream: bool, number: bytes) -> None:
    """They are never read and written anew, which would make infinities of some."""
    entry = b'{"token":"a","logprob":-1.5,"top_logprobs":[{"token":"b","logprob":' + number + b"}]}"
    part = b'"delta":{"content":"a"}' if stream else b'"message":{"content":"a"}'
    choice = b'{"index":0,' + part + b',"logprobs":{"content":[' + entry + b']},"finish_reason":'
    raw = b'{"choices":[' + choice + b'"stop"}]}'
    if stream:
        raw = b"data: " + raw + b"\n\ndata: [DONE]\n\n"
    async with proxied(LANGUAGE) as rig:
        kind = "text/event-stream" if stream else "application/json"
        rig.target.faults.answer = CannedAnswer(200, raw, kind)
        got = await rig.ask("chat", asking("chat", stream=stream, logprobs=True, top_logprobs=1))
        assert (got.status, got.whole, got.raw) == (200, True, raw)


async def test_e1_other_requests_go_on_while_the_draft_works() -> None:
    made = drafter.ScriptedDrafter(LANGUAGE, delay_s=3600)
    async with proxied(LANGUAGE, drafter=made) as rig:
        rig.target.clock.hold()
        asked = spawn(rig.ask("chat", asking("chat", stream=True)), name="ask")
        await until(lambda: made.calls)
        for path in ("/health", "/v1/models", "/metrics", "/specproxy/status"):
            assert (await rig.send("GET", path)).status == 200
        assert not asked.done()
        rig.target.clock.go()
        assert (await asked).whole


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_e5_localhost_is_found_where_it_listens(host: str) -> None:
    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": []})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, 0)
        await site.start()
        port = runner.addresses[0][1]
        named = {one[4][0] for one in socket.getaddrinfo("localhost", port)}
        if host not in named:
            pytest.skip(f"localhost is not {host} here")
        settings = {"target": {"url": f"http://localhost:{port}", "connect_s": 60}}
        async with proxied(LANGUAGE, ready=False, has_draft=False, settings=settings) as rig:
            began_s = time.monotonic()
            assert (await rig.send("GET", "/v1/models")).json == {"data": []}
            assert time.monotonic() - began_s < 30.0  # no wait for the other family
    finally:
        await runner.cleanup()
