"""What must not get out: keys, prompts, credentials; and what must not grow."""

import io
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from specproxy.testing import Break, CannedAnswer, Language, ScriptedTarget, StreamFault
from specproxy.testing.rig import Rig, proxied

CANARY = "sk-CANARY"
CLIENT_KEY = "sk-CANARY-client"
TARGET_KEY = "sk-CANARY-target"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": CANARY}], "max_tokens": 8}
KEYS = {"listen": {"api_key": CLIENT_KEY}, "target": {"api_key": TARGET_KEY}}
HEADERS = {"Authorization": f"Bearer {CLIENT_KEY}"}


async def ask_all(rig: Rig, **headers: str) -> list[bytes]:
    """Bodies and heads of the answers to all kinds of requests."""
    heard = []
    for kind in ("chat", "completions", "native", "messages", "responses", "/nowhere"):
        for stream in (True, False):
            body = {**CHAT, "prompt": CANARY, "input": CANARY, "stream": stream}
            got = await rig.ask(kind, body, headers={**HEADERS, **headers})
            heard += [got.raw, json.dumps(dict(got.headers)).encode()]
    return heard


@pytest.mark.parametrize(
    "what", ["down", "wrong key", "target's 401", "broken", "malformed", "html", "not http"]
)
async def test_no_key_or_prompt_in_errors_or_logs(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scripted target would say the prompt in its answers; so it must not answer here."""
    async with proxied(Language(), probed=True, settings=KEYS, api_key=TARGET_KEY) as rig:
        faults, headers = rig.target.faults, {}
        faults.match = lambda request: True
        if what == "down":
            await rig.target.down()
        elif what == "wrong key":
            headers = {"Authorization": f"Bearer {CANARY}-wrong"}
        elif what == "target's 401":
            refusal = {"error": {"message": f"Invalid key {TARGET_KEY}", "code": 401}}
            faults.answer = CannedAnswer(401, json.dumps(refusal).encode())
        elif what == "broken":
            faults.stream = StreamFault(Break.RESET, after_events=0)
        elif what == "malformed":
            text = f"data: {{{CANARY}\n\n"
            faults.answer = CannedAnswer(200, text.encode(), "text/event-stream")
        elif what == "html":
            faults.answer = CannedAnswer(502, b"<html>", "text/html")
        heard = [] if what == "not http" else await ask_all(rig, **headers)
        out, err = capsys.readouterr()
        metrics = (await rig.send("GET", "/metrics", headers=HEADERS)).raw
        status = (await rig.send("GET", "/specproxy/status", headers=HEADERS)).raw
    hidden = CANARY.encode()
    if what == "malformed":  # a plain body is the target's own answer
        heard = [one for one in heard if not one.startswith(b"data: {sk-CANARY")]
    assert not [one for one in [*heard, metrics, status] if hidden in one]
    assert CANARY not in out + err


async def test_each_key_goes_to_its_side_only() -> None:
    async with proxied(Language(), probed=True, settings=KEYS, api_key=TARGET_KEY) as rig:
        headers = {"x-api-key": CLIENT_KEY, "Cookie": "a=b", "X-Custom": "1"}
        await ask_all(rig, **headers)
        for request in rig.target.requests:
            assert request.headers["Authorization"] == f"Bearer {TARGET_KEY}"
            assert not {"Cookie", "X-Custom", "X-Api-Key"} & set(request.headers)


async def test_a_redirect_is_not_followed() -> None:
    async with ScriptedTarget() as other, proxied(Language(), settings=KEYS) as rig:
        rig.target.faults.match = lambda request: True
        headers = {"Location": f"{other.url}/v1/models"}
        rig.target.faults.answer = CannedAnswer(307, b"", headers=headers)
        got = await rig.send("GET", "/v1/models", headers=HEADERS)
        assert got.status == 307
        assert "Location" not in got.headers
        assert not other.requests


async def test_odd_requests_add_no_series_to_the_metrics() -> None:
    rng = random.Random(1)

    async def series(rig: Rig) -> set[str]:
        raw = (await rig.send("GET", "/metrics")).raw.decode()
        return {line.rpartition(" ")[0] for line in raw.splitlines() if not line.startswith("#")}

    async with proxied(Language()) as rig:
        for body in (CHAT, {**CHAT, "n": 2}, {**CHAT, "temperature": "x"}):
            await rig.ask("chat", body)
        await rig.ask("chat", {**CHAT, "n": 2, "temperature": "x"})
        before = await series(rig)
        for _ in range(30):
            name = f"{rng.getrandbits(64):x}"
            await rig.ask("chat", {**CHAT, "model": name, "user": name}, headers={"X-Route": name})
            await rig.send("GET", f"/{name}")
        assert await series(rig) == before


async def pieces(raw: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(raw), 1 << 18):
        yield raw[start : start + (1 << 18)]


@pytest.mark.parametrize(
    ("num_mib", "chunked"),
    [(1, False), (12, True), pytest.param(60, False, marks=pytest.mark.load)],
)
async def test_bodies_with_images_pass(num_mib: int, chunked: bool) -> None:
    """By default; the target gets them as they came."""
    image = {"url": "data:image/png;base64," + "A" * (num_mib << 20)}
    content = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": image}]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 1}
    raw = json.dumps(body).encode()
    async with proxied(Language(), has_draft=False) as rig:
        headers = {"Content-Type": "application/json"}
        data: Any = pieces(raw) if chunked else io.BytesIO(raw)
        got = await rig.send("POST", "chat", data=data, headers=headers)
        assert got.status == 200
        assert rig.target.received("/v1/chat/completions")[0].body == raw
