"""Several targets behind one URL: who answers what, for whom, and what the loss of one costs."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from specproxy.core.tasks import spawn
from specproxy.testing import CannedAnswer, ReceivedRequest, ScriptedTarget, until
from specproxy.testing.rig import PATHS
from specproxy.testing.routed import routed

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 24}
STREAM = {
    "prompt": "Hi",
    "n_predict": 200,
    "temperature": 0,
    "ignore_eos": True,
    "stream": True,
}
TWO = {"large": {"aliases": ["big", "gpt-4o"]}, "small": {}}
OWNER = "owner-key"
KEYED = {
    "large": {"keys": ["large-key"]},
    "small": {"keys": ["small-key", "both-key"]},
    "shared": {"keys": ["both-key"]},
}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def posted(target: ScriptedTarget) -> list[ReceivedRequest]:
    """What it was asked beside being looked at."""
    return [request for request in target.requests if request.method == "POST"]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("large", "large"),
        ("small", "small"),
        ("big", "large"),
        ("gpt-4o", "large"),
        ("small-model", "small"),
        ("large-model", "large"),
        (None, "large"),
        ("", "large"),
    ],
)
async def test_the_model_chooses_the_route(model: str | None, name: str) -> None:
    async with routed(TWO) as rig:
        for kind in ("chat", "completions", "native", "messages", "responses"):
            for stream in (True, False):
                body = {**CHAT, "prompt": "Hi", "n_predict": 24, "input": "Hi", "stream": stream}
                got = await rig.ask(model, kind, body)
                assert got.status == 200
                assert got.headers["x-specproxy-route"] == name
                assert rig.targets[name].received(PATHS[kind])
                rig.targets[name].requests.clear()
        (other,) = rig.targets.keys() - {name}
        assert not posted(rig.targets[other])
        await rig.rest()


async def test_each_route_answers_as_its_target_alone_and_seeds_from_one_draft() -> None:
    async with routed(TWO, probed=True, pass_ms=2.0) as rig:
        for name in TWO:
            for stream in (True, False):
                body = {**CHAT, "stream": stream}
                got = await rig.ask(name, "chat", body)
                assert got == await rig.alone(name, "chat", body)
                assert got.headers["x-specproxy-mode"] == "seeding"
        await rig.rest()
        large, small = rig.server.routes
        assert large.drafter is small.drafter
        assert large.counts.num_answers == small.counts.num_answers == 2
        assert large.counts.num_confirmed > small.counts.num_confirmed  # the draft is large's
        assert large.learned.acceptance.average > small.learned.acceptance.average


async def test_an_unknown_model_is_not_found_and_the_known_ones_are_named() -> None:
    async with routed(TWO) as rig:
        for path in ("chat", "/v1/embeddings"):
            got = await rig.ask("lareg", path, {**CHAT, "input": "a"})
            assert got.status == 404
            error = got.json["error"]
            assert (error["type"], error["source"]) == ("not_found_error", "specproxy")
            assert "lareg" in error["message"]
            assert "large, small" in error["message"]
        assert not any(map(posted, rig.targets.values()))


@pytest.mark.parametrize(
    "model",
    [
        "модель",
        "🦙",
        "large\n",
        "a\r\nevent=forged",
        "\x00",
        "..",
        "\ud800",
        "LARGE",
        "x" * 100_000,
    ],
)
async def test_an_odd_name_is_not_found_and_told_in_one_short_line(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with routed(TWO) as rig:
        capsys.readouterr()
        answers = [await rig.ask(model, path, {**CHAT, "input": "a"}) for path in ("chat", "/echo")]
        query = quote(model, safe="", errors="surrogatepass")
        if len(query) < 4000:
            answers.append(await rig.send("GET", f"/props?model={query}"))
        for got in answers:
            message = got.json["error"]["message"]
            assert (got.status, len(message) < 300) == (404, True)
            assert message.isprintable()
        assert not any(map(posted, rig.targets.values()))
        lines = capsys.readouterr().out.splitlines()
        assert len([line for line in lines if "refused" in line]) == len(answers)
        assert all(len(line) < 600 for line in lines)
        assert not any(line.startswith("event=forged") for line in lines)


async def test_an_alias_may_be_in_any_script() -> None:
    async with routed({"large": {}, "small": {"aliases": ["模型", "modèle:7b/q4"]}}) as rig:
        for alias in ("模型", "modèle:7b/q4"):
            for raw in (json.dumps({"model": alias}), f'{{"model": "{alias}"}}'):
                headers = {"Content-Type": "application/json"}
                got = await rig.send("POST", "/echo", data=raw.encode(), headers=headers)
                assert (got.raw, got.headers["x-specproxy-route"]) == (raw.encode(), "small")
            got = await rig.send("GET", f"/props?model={quote(alias)}")
            assert got.headers["x-specproxy-route"] == "small"


async def test_one_route_may_take_every_name() -> None:
    async with routed({"large": {}, "small": {"aliases": ["*"]}}) as rig:
        for model, name in (("anything", "small"), ("large", "large"), ("*", "small")):
            got = await rig.ask(model, "chat", CHAT)
            assert got.headers["x-specproxy-route"] == name


async def test_a_single_route_takes_every_name_and_speaks_for_itself() -> None:
    async with routed({"only": {}}) as rig:
        assert (await rig.ask("anything", "chat", CHAT)).status == 200
        models = (await rig.send("GET", "/v1/models")).json
        assert models["data"][0]["id"] == "only-model"  # its target's own
        await rig.send("GET", "/health")
        assert len(rig.targets["only"].received("/v1/models")) >= 1


async def test_models_are_the_targets_by_stable_names() -> None:
    from openai import AsyncOpenAI  # (half a second, of whoever collects this file)

    async with routed(TWO) as rig:
        before = await rig.send("GET", "/v1/models")
        listed = before.json["data"]
        assert [one["id"] for one in listed] == ["large", "small"]
        assert listed[0]["aliases"] == ["big", "gpt-4o"]
        assert all(one["object"] == "model" and one["meta"]["n_vocab"] for one in listed)
        draft = rig.drafter.vocabulary.name
        assert draft not in [one["id"] for one in listed]
        await rig.targets["small"].down()
        await until(lambda: rig.route("small").facts is None)
        after = (await rig.send("GET", "/models")).json["data"]
        assert [one["id"] for one in after] == ["large", "small"]
        async with AsyncOpenAI(base_url=f"{rig.server.url}/v1", api_key="any") as client:
            assert [one.id async for one in client.models.list()] == ["large", "small"]


async def test_the_list_of_models_is_the_same_whatever_the_targets_do() -> None:
    async with routed({"zeta": {}, "alpha": {"aliases": ["b", "a"]}, "mid": {}}) as rig:
        seen = set()
        for name in (None, "zeta", "mid", "alpha"):
            if name is not None:
                await rig.targets[name].down()
                await until(lambda name=name: rig.route(name).facts is None)
            for path in ("/v1/models", "/models"):
                listed = (await rig.send("GET", path)).json["data"]
                seen.add(json.dumps([{**one, "meta": None} for one in listed]))
        await rig.targets["mid"].up(model="another")
        await until(rig.route("mid").ready.is_set)
        listed = (await rig.send("GET", "/v1/models")).json["data"]
        seen.add(json.dumps([{**one, "meta": None} for one in listed]))
        assert len(seen) == 1
        assert [one["id"] for one in listed] == ["zeta", "alpha", "mid"]
        got = await rig.send("GET", "/props?model=another")
        assert got.headers["x-specproxy-route"] == "mid"
        assert (await rig.send("GET", "/props?model=mid-model")).status in (404, 503)


async def test_requests_without_a_body_name_it_in_the_query() -> None:
    async with routed(TWO) as rig:
        for path in ("/props", "/slots", "/health", "/v1/models"):
            for query, name in (("?model=small", "small"), ("?model=big", "large")):
                got = await rig.send("GET", path + query)
                assert (got.status, got.headers["x-specproxy-route"]) == (200, name)
        got = await rig.send("GET", "/props")
        assert got.headers["x-specproxy-route"] == "large"
        assert (await rig.send("GET", "/props?model=none")).status == 404
        for model, name in (("small", "small"), (None, "large")):
            got = await rig.ask(model, "/tokenize", {"content": "the sea"})
            assert got.headers["x-specproxy-route"] == name
        got = await rig.ask("large", "/tokenize?model=small", {"content": "the sea"})
        assert got.headers["x-specproxy-route"] == "large"  # the body says more


def form(model: str | None, sound: bytes) -> bytes:
    """As audio comes: a file, then the fields."""
    named = [] if model is None else [("model", "", model.encode())]
    parts = [("file", '; filename="a.wav"', sound), *named, ("language", "", b"en")]
    mark = b"--mark\r\n"
    return b"".join(
        mark
        + f'Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
        + value
        + b"\r\n"
        for name, more, value in parts
    ) + mark.replace(b"k\r", b"k--\r")


@pytest.mark.parametrize(
    ("model", "query", "name"),
    [
        ("small", "", "small"),
        ("big", "", "large"),
        ("small-model", "", "small"),
        (None, "", "large"),
        (None, "?model=small", "small"),
        ("large", "?model=small", "large"),
        ("модель", "", "small"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_form_names_its_model_and_reaches_the_target_as_it_came(
    model: str | None, query: str, name: str, chunked: bool
) -> None:
    raw = form(model, bytes(range(256)) * 8000 + b"\r\n--mar")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), 99_991):
            yield raw[start : start + 99_991]

    headers = {"Content-Type": 'multipart/form-data; boundary="mark"'}
    async with routed({**TWO, "small": {"aliases": ["модель"]}}) as rig:
        for path in ("/echo/v1/audio/transcriptions", "/v1/audio/transcriptions", "chat"):
            data = pieces() if chunked else io.BytesIO(raw)
            where = PATHS.get(path, path)
            got = await rig.send("POST", where + query, data=data, headers=headers)
            assert got.headers["x-specproxy-route"] == name
            (received,) = rig.targets[name].received(where)
            assert (received.body, received.query) == (raw, query.removeprefix("?"))
            assert received.headers["Content-Type"] == headers["Content-Type"]
            if path.startswith("/echo"):
                assert got.raw == raw


async def test_a_form_with_an_unknown_model_is_not_found() -> None:
    async with routed(TWO) as rig:
        headers = {"Content-Type": "multipart/form-data; boundary=mark"}
        got = await rig.send("POST", "/echo", data=form("lareg", b"x"), headers=headers)
        assert got.status == 404
        assert "large, small" in got.json["error"]["message"]
        assert not any(map(posted, rig.targets.values()))


async def test_openais_client_sends_audio_to_the_model_that_it_names() -> None:
    from openai import AsyncOpenAI  # (half a second, of whoever collects this file)

    async with routed(TWO) as rig:
        for name, target in rig.targets.items():
            target.faults.match = lambda request: request.path.startswith("/v1/audio")
            target.faults.answer = CannedAnswer(200, f'{{"text": "{name}"}}'.encode())
        async with AsyncOpenAI(base_url=f"{rig.server.url}/v1", api_key="any") as client:
            for model, name in (("small", "small"), ("gpt-4o", "large")):
                sound = ("a.wav", bytes(range(256)))
                said = await client.audio.transcriptions.create(model=model, file=sound)
                assert said.text == name


async def test_head_and_options_go_where_get_goes() -> None:
    async with routed(TWO) as rig:
        await rig.targets["large"].down()
        await until(lambda: rig.route("large").facts is None)
        rig.targets["small"].requests.clear()
        for path in ("/health", "/v1/health", "/v1/models", "/models", "/specproxy/status"):
            got = await rig.send("GET", path)
            head = await rig.send("HEAD", path)
            assert (head.status, head.raw) == (200, b"")
            if path != "/specproxy/status":  # it has times in it
                assert head.headers["Content-Length"] == got.headers["Content-Length"]
        assert (await rig.send("HEAD", "/metrics")).status == 200
        assert not any(one.method == "HEAD" for one in rig.targets["small"].requests)
        assert (await rig.send("HEAD", "/health?model=large")).status == 503
        for method in ("HEAD", "OPTIONS"):
            got = await rig.send(method, "/echo?model=small")
            assert (got.status, got.headers["x-specproxy-route"]) == (200, "small")
            assert (await rig.send(method, "/echo?model=none")).status == 404
            assert (await rig.send(method, "/echo")).status == 503  # the first one's


async def test_health_is_good_while_any_target_is_there() -> None:
    async with routed(TWO) as rig:
        assert (await rig.send("GET", "/health")).json == {"status": "ok"}
        await rig.targets["small"].down()
        await until(lambda: rig.route("small").facts is None)
        assert (await rig.send("GET", "/v1/health")).status == 200
        assert (await rig.send("GET", "/health?model=small")).status == 503
        await rig.targets["large"].down()
        await until(lambda: rig.route("large").facts is None)
        got = await rig.send("GET", "/health")
        assert (got.status, got.headers["Retry-After"]) == (503, "5")


async def test_health_is_bad_where_all_targets_hang() -> None:
    async with routed(TWO) as rig:
        for name in TWO:
            rig.targets[name].faults.match = lambda request: True
            rig.targets[name].faults.hang = True
            rig.route(name).there_s = 0.01
        await asyncio.sleep(0.02)
        assert (await rig.send("GET", "/health")).status == 503
        rig.route("small").there_s = 1e9
        assert (await rig.send("GET", "/health")).status == 200


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (OWNER, ["large", "small", "shared"]),
        ("large-key", ["large"]),
        ("small-key", ["small"]),
        ("both-key", ["small", "shared"]),
    ],
)
async def test_a_key_opens_its_routes_and_shows_no_others(key: str, names: list[str]) -> None:
    async with routed(KEYED, settings={"listen": {"api_key": OWNER}}) as rig:
        headers = bearer(key)
        listed = (await rig.send("GET", "/v1/models", headers=headers)).json["data"]
        assert [one["id"] for one in listed] == names
        for name in KEYED:
            for model in (name, f"{name}-model"):
                got = await rig.ask(model, "chat", CHAT, headers=headers)
                assert got.status == (200 if name in names else 404)
                if got.status == 404:
                    assert f"There are: {', '.join(names)}." in got.json["error"]["message"]
        got = await rig.ask(None, "chat", CHAT, headers={"x-api-key": key})
        assert got.headers["x-specproxy-route"] == names[0]
        for path in ("/metrics", "/specproxy/status"):
            got = await rig.send("GET", path, headers=headers)
            assert got.status == (200 if key == OWNER else 403)
        sent = [one for target in rig.targets.values() for one in target.requests]
        assert not any("Authorization" in one.headers for one in sent)


async def test_a_key_of_one_route_reaches_no_other_on_any_path() -> None:
    async with routed(KEYED, settings={"listen": {"api_key": OWNER}}) as rig:
        headers = bearer("large-key")
        kind = {"Content-Type": "multipart/form-data; boundary=mark"}
        for name in ("small", "shared", "small-model"):
            for method, path, more in (
                ("GET", "/props", {}),
                ("GET", "/slots", {}),
                ("GET", "/health", {}),
                ("GET", "/v1/models", {}),
                ("HEAD", "/props", {}),
                ("OPTIONS", "/echo", {}),
                ("POST", "/echo", {"data": b"no json"}),
                ("DELETE", "/echo", {}),
                ("POST", "/v1/chat/completions", {"json": CHAT}),
            ):
                got = await rig.send(method, f"{path}?model={name}", headers=headers, **more)
                assert got.status == 404, (method, path)
            for path in ("/tokenize", "/v1/embeddings", "/infill", "native", "messages"):
                got = await rig.ask(name, path, {**CHAT, "prompt": "Hi"}, headers=headers)
                assert got.status == 404
            data = form(name, b"x")
            got = await rig.send("POST", "/echo", data=data, headers={**headers, **kind})
            assert got.status == 404
        for name in ("small", "shared"):
            assert not posted(rig.targets[name])
            assert not any("echo" in one.path for one in rig.targets[name].requests)


async def test_without_a_right_key_nothing_is_open_but_the_health() -> None:
    async with routed(KEYED, settings={"listen": {"api_key": OWNER}}) as rig:
        for headers in ({}, bearer("other-key"), bearer("")):
            assert (await rig.ask("large", "chat", CHAT, headers=headers)).status == 401
            assert (await rig.send("GET", "/v1/models", headers=headers)).status == 401
            assert (await rig.send("GET", "/health", headers=headers)).status == 200
            assert (await rig.send("GET", "/health?model=small", headers=headers)).status == 404


async def test_a_targets_key_reaches_no_other_target() -> None:
    routes = {"large": {"target": {"api_key": "large-secret"}}, "small": {}}
    async with routed(routes, probed=True) as rig:
        for name in routes:
            await rig.ask(name, "chat", CHAT, headers=bearer("client-key"))
        await rig.rest()
        seen = {
            name: {one.headers.get("Authorization") for one in target.requests}
            for name, target in rig.targets.items()
        }
    assert seen["large"] == {"Bearer large-secret"}
    assert seen["small"] == {"Bearer client-key", None}  # the client's own, and our requests


async def test_a_full_route_says_so_and_others_go_on() -> None:
    async with routed({"large": {"max_requests": 2}, "small": {}}) as rig:
        rig.targets["large"].clock.hold()
        asked = [spawn(rig.ask("large", "chat", CHAT), name="ask") for _ in range(2)]
        await until(lambda: rig.route("large").gate.num_inside == 2)
        got = await rig.ask("large", "chat", CHAT)
        assert (got.status, got.headers["Retry-After"]) == (429, "1")
        assert got.json["error"]["type"] == "rate_limit_error"
        assert (await rig.ask("small", "chat", CHAT)).status == 200
        rig.targets["large"].clock.go()
        assert [(await one).status for one in asked] == [200, 200]
        await rig.rest()
        assert (await rig.ask("large", "chat", CHAT)).status == 200


async def test_the_loss_of_one_target_does_not_disturb_the_other() -> None:
    async with routed(TWO, pass_ms=2.0) as rig:
        lost = spawn(rig.ask("small", "native", STREAM), name="small")
        kept = [spawn(rig.ask("large", "native", STREAM), name="large") for _ in range(2)]
        await until(lambda: all(len(one.passes) > 5 for one in rig.targets.values()))
        learned = rig.route("large").learned.acceptance.saved()
        await rig.targets["small"].down()
        broken = await lost
        assert not broken.whole
        assert "error" in broken.events[-1]
        alone = await rig.alone("large", "native", STREAM)
        assert [await one == alone for one in kept] == [True, True]
        await until(lambda: rig.route("small").facts is None)
        for model in ("small", "small-model"):  # its name is remembered
            got = await rig.ask(model, "native", STREAM)
            assert (got.status, got.headers["Retry-After"]) == (503, "5")
        assert rig.route("large").ready.is_set()
        assert rig.route("large").learned.acceptance.saved() != learned
        answers = rig.route("small").counts.num_answers
        await rig.targets["small"].up()
        await until(rig.route("small").ready.is_set)
        assert await rig.ask("small", "native", STREAM) == await rig.alone(
            "small", "native", STREAM
        )
        await rig.rest()
        assert rig.route("small").counts.num_answers == answers + 1  # kept over the loss


async def test_a_name_may_be_that_of_a_target_nobody_has_seen() -> None:
    async with routed(TWO, ready=False, poll_s=0.02) as rig:
        await until(rig.route("large").ready.is_set)
        await rig.targets["small"].down()
        rig.route("small").model = None
        got = await rig.ask("who", "chat", CHAT)
        assert (got.status, got.headers["Retry-After"]) == (503, "5")
        assert "small" in got.json["error"]["message"]


async def test_status_metrics_and_page_show_every_route() -> None:
    async with routed(TWO) as rig:
        await asyncio.gather(*(rig.ask(name, "chat", CHAT) for name in TWO))
        await rig.rest()
        status = (await rig.send("GET", "/specproxy/status")).json["routes"]
        assert [one["name"] for one in status] == ["large", "small"]
        assert [one["counts"]["num_answers"] for one in status] == [1, 1]
        text = (await rig.send("GET", "/metrics")).raw.decode()
        for name in TWO:
            assert f'specproxy_mode{{mode="seeding",route="{name}"}} 1.0' in text
        async with rig.client.get(f"{rig.server.url}/specproxy/events") as events:
            for word in (b"present", b"history"):
                line = await events.content.readuntil(b"\n\n")
                assert b"event: " + word in line
                assert b'"name":"large"' in line
                assert b'"name":"small"' in line
