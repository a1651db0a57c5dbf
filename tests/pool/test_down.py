"""`specproxy pool down`; what it ends, test_up.py starts."""

from specproxy.pool.down import GRACE_S
from specproxy.server.app import SHUTDOWN_S


def test_a_proxy_has_the_time_to_end_its_answers() -> None:
    assert GRACE_S > SHUTDOWN_S
