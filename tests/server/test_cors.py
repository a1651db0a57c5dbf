"""Browsers: off unless configured; where configured, every answer says so."""

import pytest

from specproxy.testing import CannedAnswer, Language
from specproxy.testing.rig import PATHS, proxied

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 4}
PAGE = "https://chat.example.org"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}
KEY = {"api_key": "client-key"}


def cors_headers(headers: object) -> set[str]:
    return {name for name in headers if name.lower().startswith("access-control-")}  # type: ignore[attr-defined]


async def test_off_unless_configured() -> None:
    async with proxied(Language()) as rig:
        for method, path, more in (
            ("POST", "chat", {"json": CHAT}),
            ("POST", "chat", {"json": {**CHAT, "stream": True}}),
            ("POST", "chat", {"json": {**CHAT, "n": 2}}),
            ("GET", "/v1/models", {}),
            ("GET", "/nowhere", {}),
            ("OPTIONS", PATHS["chat"], {}),
        ):
            got = await rig.send(method, path, headers=PREFLIGHT, **more)
            assert not cors_headers(got.headers)
        assert all("Origin" not in request.headers for request in rig.target.requests)


@pytest.mark.parametrize("origins", [["*"], [PAGE, "http://localhost:3000"]])
async def test_a_page_that_may(origins: list[str]) -> None:
    settings = {"listen": {"cors_origins": origins, **KEY}}
    async with proxied(Language(), settings=settings) as rig:
        got = await rig.send("OPTIONS", PATHS["chat"], headers=PREFLIGHT)
        assert (got.status, got.raw) == (204, b"")
        allowed = got.headers["Access-Control-Allow-Headers"]
        assert allowed == PREFLIGHT["Access-Control-Request-Headers"]
        assert "POST" in got.headers["Access-Control-Allow-Methods"]
        seen = {"/v1/chat/completions"} & {request.path for request in rig.target.requests}
        assert not seen
        key = {"Authorization": "Bearer client-key", "Origin": PAGE}
        for status, body in (
            (200, CHAT),
            (200, {**CHAT, "stream": True}),
            (200, {**CHAT, "n": 2, "stream": True}),
            (400, {**CHAT, "temperature": "x"}),
        ):
            got = await rig.ask("chat", body, headers=key)
            assert got.status == status
            check_allowed(got.headers, origins)
        got = await rig.ask("chat", CHAT, headers={"Origin": PAGE})
        assert got.status == 401
        check_allowed(got.headers, origins)
        rig.target.faults.answer = CannedAnswer(500, b"{}")
        got = await rig.ask("chat", CHAT, headers=key)
        assert got.status == 500
        check_allowed(got.headers, origins)
        await rig.target.down()
        got = await rig.ask("chat", CHAT, headers=key)
        assert got.status == 503
        check_allowed(got.headers, origins)


def check_allowed(headers: object, origins: list[str]) -> None:
    assert headers["Access-Control-Allow-Origin"] == ("*" if "*" in origins else PAGE)  # type: ignore[index]
    assert "Access-Control-Allow-Credentials" not in headers  # type: ignore[operator]
    assert "Origin" in headers.get("Vary", "") or "*" in origins  # type: ignore[attr-defined]


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "", PAGE + ".evil.org"])
async def test_a_page_that_may_not(origin: str) -> None:
    settings = {"listen": {"cors_origins": [PAGE], **KEY}}
    async with proxied(Language(), settings=settings) as rig:
        got = await rig.send("OPTIONS", PATHS["chat"], headers={**PREFLIGHT, "Origin": origin})
        assert not cors_headers(got.headers)
        headers = {"Authorization": "Bearer client-key", "Origin": origin}
        got = await rig.ask("chat", CHAT, headers=headers)
        assert got.status == 200  # curl sends no origin, either; the browser hides the answer
        assert not cors_headers(got.headers)
        assert got.headers["Vary"] == "Origin"
