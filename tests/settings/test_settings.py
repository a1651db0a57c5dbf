"""Settings are strict, and say which key is wrong and what to do."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from specproxy.errors import ConfigError
from specproxy.settings import load, load_one_target


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return path


def test_defaults_listen_on_this_machine_only() -> None:
    settings = load()
    assert settings.listen.is_loopback
    assert settings.draft is None
    assert settings.target.url == "http://127.0.0.1:8080"
    with pytest.raises(ValidationError):
        settings.route = "other"  # type: ignore[misc]


def test_arguments_over_environment_over_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "route: file\nlisten: {port: 1}\ntarget: {url: http://file:1/}\n")
    assert load(path).target.url == "http://file:1"
    monkeypatch.setenv("SPECPROXY_ROUTE", "environment")
    monkeypatch.setenv("SPECPROXY_LISTEN__PORT", "2")
    settings = load(path, listen={"port": 3})
    assert (settings.route, settings.listen.port) == ("environment", 3)
    assert settings.target.url == "http://file:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tarjet: {}", "tarjet: no such key"),
        ("target: {urll: x}", r"target\.urll: no such key"),
        ("target: {url: 'nas:8080'}", r"target\.url: .*http://host:port"),
        ("target: {url: 'http://nas:8080/v1'}", r"target\.url: leave out /v1"),
        ("target: {url: 'http://u:CANARY@nas:1'}", r"target\.url: .*target\.api_key"),
        ("target: {url: 'http://nas:1?a=b'}", r"target\.url: must end before"),
        ("target: {url: 'http://n as:1'}", r"target\.url: .*http://host:port"),
        ("target: {api_key: 'CANARY k'}", r"target\.api_key: must be visible ASCII"),
        ("listen: {api_key: ''}", r"listen\.api_key: must be visible ASCII"),
        ("listen: {port: 70000}", r"listen\.port: .*65535"),
        ("seeding: {warm: sometimes}", r"seeding\.warm: .*'auto', 'always' or 'never'"),
        ("route: 'a b'", "route: "),
        ("listen: 5", "listen: "),
        ("a: [", "cannot be read"),
        ("- a", "cannot be read"),
        ("404: a", "cannot be read"),
        ("[" * 1000, "cannot be read: maximum recursion depth"),
        ("target: {}\nroute: x\ntarget: {}", "the key target comes twice .*line 3"),
        ("target: {url: 'http://a:1', 'url': 'http://b:1'}", "the key url comes twice"),
        ("target: {connect_s: .inf}", r"target\.connect_s: .*finite"),
        ("listen: {write_s: .nan}", r"listen\.write_s: .*finite"),
        ("draft: {model: /no/such.gguf}", r"draft\.model: there is no file /no/such\.gguf"),
        ("draft: {model: /dev/null/x.gguf}", r"draft\.model: .* cannot be read: Not"),
        ("coordinator: {model: /dev}", r"coordinator\.model: /dev cannot be read: Is a"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(written(tmp_path, text))
    assert caught.value.remedy


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no settings file .*configs/"):
        load(tmp_path / "none.yaml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "route: x")
    path.chmod(0)
    with pytest.raises(ConfigError, match=r"my\.yaml cannot be read: Permission denied.*this user"):
        load(path)
    with pytest.raises(ConfigError, match=r"draft\.model: .* cannot be read: Permission denied"):
        load(draft={"model": path})


def test_what_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    """A name that is too long is refused as a forbidden folder is, to root as well."""
    path = tmp_path / ("x" * 300)
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        load(path)
    with pytest.raises(ConfigError, match=r"draft\.model: .* cannot be read: File name too long"):
        load(draft={"model": path})


def test_off_needs_no_quotes_and_booleans_may_be_said_as_ever(tmp_path: Path) -> None:
    text = "seeding: {mode: off}\nfanout: {mode: off}\npage: {texts: no}\nstate: {keep: False}\n"
    settings = load(written(tmp_path, text))
    assert (settings.seeding.mode, settings.fanout.mode) == ("off", "off")
    assert (settings.page.texts, settings.state.keep) == (False, False)


def test_what_is_merged_in_may_be_said_anew(tmp_path: Path) -> None:
    text = (
        "routes:\n"
        "  a: {target: &near {url: 'http://a:1', connect_s: 1}}\n"
        "  b: {target: &b {<<: *near, url: 'http://b:1'}}\n"
        "  c: {target: {<<: *b, url: 'http://c:1'}}\n"
    )
    routes = load(written(tmp_path, text)).all_routes.values()
    assert [route.target.url for route in routes] == ["http://a:1", "http://b:1", "http://c:1"]
    assert {route.target.connect_s for route in routes} == {1.0}


def test_a_fault_of_the_file_quotes_nothing_of_it(tmp_path: Path) -> None:
    for text in ("target: {api_key: CANARY", "target: {api_key: CANARY, api_key: CANARY}"):
        with pytest.raises(ConfigError) as caught:
            load(written(tmp_path, text))
        assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("name", ["SPECPROXY_TARJET__URL", "SPECPROXY_X"])
def test_a_variable_that_names_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match=name):
        load()


@pytest.mark.parametrize("service", ["", "LLAMA_"])
def test_variables_of_a_service_of_kubernetes_are_no_settings(
    monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    for name, value in (
        ("SERVICE_HOST", "10.0.0.1"),
        ("SERVICE_PORT", "8088"),
        ("SERVICE_PORT_HTTP", "8088"),
        ("PORT", "tcp://10.0.0.1:8088"),
        ("PORT_8088_TCP", "tcp://10.0.0.1:8088"),
        ("PORT_8088_TCP_ADDR", "10.0.0.1"),
    ):
        monkeypatch.setenv(f"SPECPROXY_{service}{name}", value)
    load()
    load_one_target()
    monkeypatch.setenv(f"SPECPROXY_{service}PORT", "9000")
    with pytest.raises(ConfigError, match=f"SPECPROXY_{service}PORT"):
        load()


def test_a_wrong_nested_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPROXY_TARGET__URLL", "x")
    with pytest.raises(ConfigError, match=r"target\.urll: no such key"):
        load()


def test_the_folder_of_llama_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPROXY_LLAMA_DIR", "/x")
    load()


@pytest.mark.parametrize(
    ("listen", "allowed"),
    [
        ({"host": "0.0.0.0"}, False),
        ({"host": "::"}, False),
        ({"host": "nas.local"}, False),
        ({"host": "0.0.0.0", "api_key": "k"}, True),
        ({"host": "0.0.0.0", "allow_public_without_key": True}, True),
        ({"host": "localhost"}, True),
        ({"host": "127.1.2.3"}, True),
        ({"host": "::1"}, True),
    ],
)
def test_nobody_listens_openly_by_accident(listen: dict[str, Any], allowed: bool) -> None:
    if allowed:
        load(listen=listen)
        return
    with pytest.raises(ConfigError, match=r"listen\.api_key"):
        load(listen=listen)


def test_keys_show_nowhere() -> None:
    settings = load(listen={"api_key": "hush-1"}, target={"api_key": "hush-2"})
    assert "hush" not in repr(settings) + str(settings.model_dump())
    with pytest.raises(ConfigError) as caught:
        load(listen={"api_key": ["hush"]})
    assert "hush" not in str(caught.value)


def test_home_is_known_in_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "d.gguf").touch()
    settings = load(written(tmp_path, "state: {path: ~/kept}\ndraft: {model: ~/d.gguf}\n"))
    assert settings.state.path == tmp_path / "kept"
    assert settings.draft is not None
    assert settings.draft.model == tmp_path / "d.gguf"
    with pytest.raises(ConfigError, match=r"state\.path: begins with a home that is not known"):
        load(state={"path": "~no-such-user/kept"})
