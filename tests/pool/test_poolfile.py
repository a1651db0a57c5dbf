"""The pool's file: the examples load, what is wrong is named."""

from pathlib import Path

import pytest
import yaml

from specproxy.errors import ConfigError
from specproxy.pool.poolfile import PoolFile, is_local, public_reason, read_pool, url_of

EXAMPLES = sorted((Path(__file__).parents[2] / "configs/pools").glob("*.yaml"))
LEAST = {
    "name": "p",
    "target": {"model": "/m.gguf"},
    "coordinator": {"memory_gib": 8},
    "workers": [{"name": "w", "host": "127.0.0.1", "memory_gib": 8}],
}


def test_the_examples_are_these() -> None:
    assert [path.stem for path in EXAMPLES] == ["lan", "nas", "wan"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_loads_under_its_own_name(path: Path) -> None:
    pool = read_pool(path)
    assert pool.name == path.stem
    assert len(pool.workers) == 2
    assert all(public_reason(worker.host) is None for worker in pool.workers)


def test_the_lan_example_mentions_every_key() -> None:
    text = EXAMPLES[0].read_text(encoding="utf-8")
    sections = [PoolFile, *(field.annotation for field in PoolFile.model_fields.values())]
    keys = {key for kind in sections for key in getattr(kind, "model_fields", {})}
    keys |= {"name", "host", "port", "device", "memory_gib", "layers", "num_threads", "cache"}
    keys |= {"ssh", "llama", "link", "rtt_ms", "mbit_s", "api_key_file", "devices"}
    assert [key for key in keys if key not in text] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrokers": []}, "wrokers: no such key"),
        ({"workers": []}, "workers: "),
        ({"name": "../../etc"}, "name: "),
        ({"workers": [{"name": "w", "host": "h", "memory_gib": 0}]}, "workers.0.memory_gib"),
        ({"workers": [{"name": "w", "host": "-oX", "memory_gib": 1}]}, "begin with a dash"),
        ({"workers": LEAST["workers"] * 2}, "two workers have the name w"),
        ({"coordinator": {"kind": "vllm", "memory_gib": 8}}, "coordinator.kind"),
        ({"coordinator": {"ssh": "-oProxyCommand=x", "memory_gib": 8}}, "begin with a dash"),
        ({"target": {"model": "~/m.gguf"}}, r"target\.model: must be written out"),
        ({"coordinator": {"llama": "~ann/llama", "memory_gib": 8}}, "coordinator.llama: must be"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        read_pool(path)


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "\0", "&a [*a]", "1: 2", "name: p\nname: q"])
def test_what_is_no_pool_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="pool"):
        read_pool(path)


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8", "::", "2001:4860:4860::8888"])
def test_public_addresses_are_told(host: str) -> None:
    assert host in (public_reason(host) or "")


@pytest.mark.parametrize("host", ["127.0.0.1", "192.168.1.5", "10.0.0.1", "100.64.0.21"])
def test_private_ones_may_be_used(host: str) -> None:
    assert public_reason(host) is None


def test_this_machine_is_known() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("nas.local", "http://nas.local:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("fd7a:115c:a1e0::1", "http://[fd7a:115c:a1e0::1]:8080"),
    ],
)
def test_where_a_server_is_asked(host: str, url: str) -> None:
    assert url_of(host, 8080) == url


def test_home_is_known_where_the_proxy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    pool = PoolFile.model_validate({**LEAST, "draft": {"model": "~/d.gguf"}})
    assert pool.draft is not None
    assert pool.draft.model == Path("/home/ann/d.gguf")
