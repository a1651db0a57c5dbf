"""What `specproxy worker` refuses and says before it serves."""

from ipaddress import IPv4Address

import pytest
from rich.console import Console

from specproxy.errors import ConfigError
from specproxy.llama.devices import Device
from specproxy.worker import announcement, is_private, resolve, run_worker

GPU = Device(1, "CUDA0", "A big one", "gpu", 20 * 2**30, 24 * 2**30)


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("172.16.0.9", True),
        ("192.168.1.20", True),
        ("169.254.1.1", True),
        ("100.64.0.1", True),  # Tailscale
        ("100.127.255.254", True),
        ("100.128.0.1", False),
        ("8.8.8.8", False),
        ("0.0.0.0", False),  # every interface, the public one too
    ],
)
def test_private_addresses_are_known(address: str, private: bool) -> None:
    assert is_private(IPv4Address(address)) is private


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8"])
def test_a_public_address_is_refused_with_the_way_out(host: str) -> None:
    with pytest.raises(ConfigError, match=f"{host} may be reached from outside") as caught:
        run_worker(host, 50052, Console(quiet=True))
    assert "--allow-public" in caught.value.remedy


def test_names_become_ipv4_addresses() -> None:
    assert resolve("localhost") == IPv4Address("127.0.0.1")
    with pytest.raises(ConfigError, match="no address of this machine"):
        resolve("nowhere.invalid")


def test_it_says_what_it_serves_and_what_to_write_where() -> None:
    assert announcement("192.168.1.20", 50052, [GPU]) == [
        "CUDA0: A big one, 20.0 of 24.0 GiB free",
        "Serving at 192.168.1.20:50052. In the coordinator's settings, under `coordinator:`",
        '  workers: ["192.168.1.20:50052"]',
    ]
    assert "ADDRESS_OF_THIS_MACHINE:50052" in announcement("0.0.0.0", 50052, [GPU])[-1]
