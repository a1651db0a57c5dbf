"""Which routes a key opens."""

import pytest

from specproxy.server.keyring import Access, Keyring
from specproxy.settings import Settings, load

ROUTES = {
    "large": {"target": {"url": "http://a:1"}, "keys": ["one", "both"]},
    "small": {"target": {"url": "http://b:1"}, "keys": ["both"]},
    "own": {"target": {"url": "http://c:1"}},
}
EVERYTHING = Access(frozenset(ROUTES), owner=True)


@pytest.mark.parametrize(
    ("given", "access"),
    [
        ([b"owner"], EVERYTHING),
        ([b"", b"owner"], EVERYTHING),
        ([b"one", b"owner"], EVERYTHING),
        ([b"one"], Access(frozenset({"large"}), owner=False)),
        ([b"both"], Access(frozenset({"large", "small"}), owner=False)),
        ([b"other", b""], None),
        ([], None),
    ],
)
def test_keys(given: list[bytes], access: Access | None) -> None:
    keyring = Keyring(load(None, listen={"api_key": "owner"}, routes=ROUTES))
    assert keyring.access(given) == access
    assert keyring.without_key == Access(frozenset({"large"}), owner=False)
    assert "both" not in repr(keyring)


@pytest.mark.parametrize("given", [[], [b"any"]])
def test_without_a_key_in_the_settings_everything_is_open(given: list[bytes]) -> None:
    assert Keyring(Settings()).access(given) == Access(frozenset({"default"}), owner=True)
