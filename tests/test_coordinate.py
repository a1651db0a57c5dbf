"""What `specproxy coordinator` says before it has a model."""

import pytest

from specproxy.coordinate import bound, url_of
from specproxy.errors import ConfigError
from specproxy.pool.poolfile import is_local
from specproxy.settings import load


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_it_shows_a_url_that_a_proxy_takes_as_its_target(host: str, shown: str) -> None:
    if not is_local(host):
        pytest.skip(f"this machine has no {host}")
    with bound(load(None, listen={"host": host, "port": 0})) as listener:
        url = url_of(listener)
        assert url == f"http://{shown}:{listener.getsockname()[1]}"
        assert load(None, target={"url": url}).target.url == url


def test_an_address_that_is_taken_is_said() -> None:
    with bound(load(None, listen={"port": 0})) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1:{port}"):
            bound(load(None, listen={"port": port}))
