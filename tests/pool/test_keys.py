"""Which process of a pool is told which key."""

from pathlib import Path
from typing import Any

import pytest

from specproxy.pool.commands import pool_commands
from specproxy.pool.keys import CLIENTS_VARIABLE, COORDINATOR_VARIABLE, key_variables
from specproxy.pool.poolfile import PoolFile

ELSEWHERE = {"host": "192.0.2.1"}
BOTH = {CLIENTS_VARIABLE: "clients", COORDINATOR_VARIABLE: "coordinators"}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BOTH:
        monkeypatch.delenv(name, raising=False)


def told(**coordinator: Any) -> dict[str, dict[str, str]]:
    """What is told to whom, by roles; nothing of those that are told nothing."""
    pool = PoolFile.model_validate(
        {
            "name": "p",
            "target": {"model": "/m.gguf"},
            "coordinator": {"memory_gib": 8, "kind": "specproxy", **coordinator},
            "workers": [{"name": "w", "host": "127.0.0.1", "memory_gib": 8}],
            "proxy": {},
        }
    )
    commands = pool_commands(pool, [1.0], output_local=False)
    return {each.role: said for each in commands if (said := key_variables(pool, each))}


def one_key(key: str) -> dict[str, dict[str, str]]:
    """Our own coordinator asks for it, and the proxy gives it."""
    return {"coordinator": {CLIENTS_VARIABLE: key}, "proxy": {COORDINATOR_VARIABLE: key}}


def test_without_a_key_nobody_is_told_one() -> None:
    assert told() == {}


@pytest.mark.parametrize("where", [{}, {**ELSEWHERE, "ssh": "ann@192.0.2.1"}])
def test_our_own_coordinator_and_the_proxy_have_the_same(
    where: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CLIENTS_VARIABLE, "clients")
    assert told(**where) == one_key("clients")
    monkeypatch.setenv(COORDINATOR_VARIABLE, "coordinators")
    assert told(**where) == one_key("coordinators")


def test_the_clients_key_is_none_of_who_is_started_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CLIENTS_VARIABLE, "clients")
    assert told(**ELSEWHERE) == {}
    assert told(kind="llama-server") == {}


@pytest.mark.parametrize("kind", ["llama-server", "specproxy"])
def test_a_key_in_a_file_is_read_where_the_file_is(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert told(kind=kind, api_key_file=file) == {}
    file.write_bytes(b"\xff")
    assert told(kind=kind, api_key_file=file) == {}
    file.write_text("from-file\nanother\n", encoding="utf-8")
    expected = one_key("from-file")
    if kind == "llama-server":  # it reads the file itself
        del expected["coordinator"]
    assert told(kind=kind, api_key_file=file) == expected
