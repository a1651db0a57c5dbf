"""Routes in the settings: what they inherit, and what cannot be."""

from pathlib import Path
from typing import Any

import pytest

from specproxy.errors import ConfigError
from specproxy.settings import load, load_one_target

URL_A, URL_B = "http://a:1", "http://b:1"
A, B = {"target": {"url": URL_A}}, {"target": {"url": URL_B}}


@pytest.fixture
def drafts(tmp_path: Path) -> list[str]:
    paths = [tmp_path / name for name in ("one.gguf", "two.gguf")]
    for path in paths:
        path.touch()
    return [str(path) for path in paths]


def test_one_target_is_one_route() -> None:
    ((name, route),) = load(None, target={"url": URL_A}, route="mine").all_routes.items()
    assert (name, route.target.url) == ("mine", URL_A)
    assert list(load().all_routes) == ["default"]


def test_the_target_at_the_top_is_the_first_route_if_it_is_named() -> None:
    assert list(load(None, **A, routes={"b": B}).all_routes) == ["default", "b"]
    assert list(load(None, routes={"b": B, "a": A}).all_routes) == ["b", "a"]
    assert list(load(None, target={"idle_s": 5}, routes={"b": B}).all_routes) == ["b"]


def test_a_coordinator_is_the_first_route(drafts: list[str]) -> None:
    settings = load(None, coordinator={"model": drafts[0]}, routes={"b": B})
    assert list(settings.all_routes) == ["default", "b"]


def test_a_route_inherits_what_it_does_not_say(drafts: list[str]) -> None:
    one, two = drafts
    settings = load(
        None,
        target={"idle_s": 5.0, "connect_s": 6.0},
        draft={"model": one, "num_threads": 3},
        seeding={"mode": "off", "block_tokens": 9},
        fanout={"block_tokens": 5},
        routes={
            "plain": A,
            "own": {
                "target": {"url": URL_B, "idle_s": 7.0},
                "draft": {"model": two},
                "seeding": {"mode": "auto"},
                "fanout": {"mode": "off"},
            },
            "bare": {"target": {"url": "http://c:1"}, "draft": None},
        },
    )
    routes = settings.all_routes
    plain, own, bare = routes["plain"], routes["own"], routes["bare"]
    assert (plain.target.url, plain.target.idle_s, plain.target.connect_s) == (URL_A, 5.0, 6.0)
    assert plain.draft == settings.draft
    assert (plain.seeding, plain.fanout) == (settings.seeding, settings.fanout)
    assert (own.target.url, own.target.idle_s, own.target.connect_s) == (URL_B, 7.0, 6.0)
    assert own.draft is not None
    assert (str(own.draft.model), own.draft.num_threads) == (two, 3)
    assert (own.seeding.mode, own.seeding.block_tokens) == ("auto", 9)
    assert (own.fanout.mode, own.fanout.block_tokens) == ("off", 5)
    assert bare.draft is None


def test_a_key_is_not_inherited() -> None:
    settings = load(None, target={"url": URL_A, "api_key": "hush"}, routes={"b": B})
    top, other = settings.all_routes.values()
    assert top.target.api_key is not None
    assert other.target.api_key is None


def test_keys_of_routes_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "owner")
    monkeypatch.setenv("SPECPROXY_ROUTES__b__KEYS", '["hush"]')
    settings = load(None, routes={"b": B})
    assert [key.get_secret_value() for key in settings.all_routes["b"].keys] == ["hush"]
    assert "hush" not in repr(settings)


def test_a_body_limit_is_a_routes_own_or_none() -> None:
    settings = load(
        None, **A, listen={"max_body_bytes": 5000}, routes={"b": {**B, "max_body_bytes": 9000}}
    )
    assert [route.max_body_bytes for route in settings.all_routes.values()] == [None, 9000]


def test_a_command_for_one_target_passes_over_routes_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "owner")
    monkeypatch.setenv("SPECPROXY_ROUTES__b__KEYS", '["hush"]')
    with pytest.raises(ConfigError, match=r"routes\.b\.target"):
        load(None, **A)
    settings = load_one_target(**A)
    assert list(settings.all_routes) == ["default"]
    assert settings.target.url == URL_A
    assert settings.listen.api_key is not None


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"routes": {"a": {**A, "max_body_bytes": 1023}}}, r"routes\.a\.max_body_bytes"),
        (
            {"listen": {"api_key": "k"}, "routes": {"a": {**A, "keys": ["x", "k"]}}},
            r"routes\.a\.keys: one of them is listen\.api_key",
        ),
        ({"routes": {"a b": A}}, r"routes\.a b"),
        ({"routes": {"a": {}}}, r"routes\.a\.target"),
        ({"routes": {"a": {"target": {}}}}, r"routes\.a\.target\.url is not set"),
        ({"routes": {"a": {**A, "urls": 1}}}, r"routes\.a\.urls: no such key"),
        ({"routes": {"a": {**A, "aliases": ["x y"]}}}, r"routes\.a\.aliases"),
        ({"routes": {"a": {**A, "max_requests": 0}}}, r"routes\.a\.max_requests"),
        ({"routes": {"a": {**A, "keys": ["k"]}}}, r"routes\.a\.keys .*listen\.api_key"),
        ({**A, "routes": {"default": B}}, "Two routes are called default"),
        ({"routes": {"a": {**A, "aliases": ["b"]}, "b": B}}, "b is the route b already"),
        (
            {"routes": {"a": {**A, "aliases": ["x"]}, "b": {**B, "aliases": ["x"]}}},
            "x is the route a already",
        ),
        ({"routes": {"a": A, "b": A}}, "a and b have the same target.*aliases"),
        ({**A, "routes": {"a": A}}, "default and a have the same target"),
        ({"routes": {"a": {**A, "draft": {"model": "/no/such"}}}}, r"routes\.a\.draft\.model"),
    ],
)
def test_what_cannot_be_is_named(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(None, **sections)
    assert caught.value.remedy


def test_a_shared_draft_is_loaded_one_way(drafts: list[str]) -> None:
    one = {"model": drafts[0]}
    routes = {"a": A, "b": {**B, "draft": {**one, "gpu_layers": 9}}}
    with pytest.raises(ConfigError, match=r"routes\.b\.draft: .*one\.gguf is loaded already"):
        load(None, draft=one, routes=routes)
    routes["b"]["draft"] = one
    load(None, draft=one, routes=routes)
