"""docker-compose.yaml, as far as it can be checked without an engine."""

import ipaddress
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from specproxy.pool.poolfile import public_reason
from tests.command_lines import tried

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_it_has_workers_a_coordinator_and_a_proxy_of_one_image() -> None:
    assert set(SERVICES) == {"worker-a", "worker-b", "coordinator", "proxy"}
    assert {service["image"] for service in SERVICES.values()} == {"specproxy"}
    assert all(service["build"] == "." for service in SERVICES.values())


def test_the_rpc_network_leads_nowhere_and_workers_are_bound_to_it() -> None:
    network = COMPOSE["networks"]["rpc"]
    assert network["internal"] is True
    subnet = ipaddress.ip_network(network["ipam"]["config"][0]["subnet"])
    addresses = []
    for name in ("worker-a", "worker-b"):
        service = SERVICES[name]
        (only,) = service["networks"]
        address = service["networks"][only]["ipv4_address"]
        assert only == "rpc"
        assert "ports" not in service
        assert ipaddress.ip_address(address) in subnet
        assert service["command"][service["command"].index("--host") + 1] == address
        assert public_reason(address) is None
        assert service["healthcheck"] == {"disable": True}
        addresses.append(address)
    workers = [word for word in SERVICES["coordinator"]["command"] if "--worker=" in word]
    assert workers == [f"--worker={address}:50052" for address in addresses]


def test_only_the_proxy_is_open_and_to_this_machine_alone() -> None:
    opened = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert opened == {"proxy": ["127.0.0.1:8088:8088"]}


def test_each_variable_without_a_default_says_what_it_is() -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    names = set(re.findall(r"\$\{(\w+)", text))
    assert names == set(re.findall(r"\$\{(\w+):\?", text)) == {"MODELS", "SPECPROXY_API_KEY"}


@pytest.mark.parametrize("name", ["coordinator", "proxy"])
def test_commands_and_settings_are_known(name: str) -> None:
    service = SERVICES[name]
    settings = {key: re.sub(r"\$\{.*\}", "key", v) for key, v in service["environment"].items()}
    ended = tried(*service["command"], **settings)
    assert ended.returncode == 2  # the models are not here; but all else was understood
    assert "there is no file /models/" in ended.stderr


def test_the_proxy_keeps_what_it_learns_in_a_volume() -> None:
    (folder,) = re.findall(
        r"XDG_CACHE_HOME=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8")
    )
    mounted = dict(item.rsplit(":", 1) for item in SERVICES["proxy"]["volumes"] if "$" not in item)
    assert mounted == {"learned": f"{folder}/specproxy"}
    assert set(COMPOSE["volumes"]) == set(mounted)
