"""Settings are strict, and say which key is wrong and what to do."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from specproxy.errors import ConfigError
from specproxy.settings import load


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
        ("- a", "cannot be read|Settings"),
        ("draft: {model: /no/such.gguf}", r"draft\.model: there is no file /no/such\.gguf"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(written(tmp_path, text))
    assert caught.value.remedy


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no settings file .*configs/"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["SPECPROXY_TARJET__URL", "SPECPROXY_X"])
def test_a_variable_that_names_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match=name):
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
