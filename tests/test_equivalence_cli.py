"""`specproxy verify-equivalence`: what may be given together."""

import pytest
import typer
from typer.testing import CliRunner

from specproxy.equivalence_cli import _own, register
from specproxy.errors import ConfigError


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return app


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--target", "http://127.0.0.1:1"],
        ["--control", "http://127.0.0.1:1"],
        ["--demo", "--target", "http://127.0.0.1:1", "--control", "http://127.0.0.1:2"],
    ],
)
def test_there_are_two_ways(app: typer.Typer, given: list[str]) -> None:
    result = CliRunner().invoke(app, ["verify-equivalence", *given])
    assert isinstance(result.exception, ConfigError)
    assert "--demo, or --target URL and --control URL" in str(result.exception)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "front")
    monkeypatch.setenv("SPECPROXY_TARGET__API_KEY", "back")
    target, control = _own("http://127.0.0.1:1", "http://127.0.0.1:2/")
    assert (target.url, control.url) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert target.api_key is not None
    assert target.api_key.get_secret_value() == "front"
    assert control.api_key is not None
    assert control.api_key.get_secret_value() == "back"


def test_a_wrong_url_is_said() -> None:
    with pytest.raises(ConfigError, match="/v1"):
        _own("http://127.0.0.1:1/v1", "http://127.0.0.1:2")
