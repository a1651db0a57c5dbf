"""How many come in at once."""

import pytest

from specproxy.errors import TooManyRequests
from specproxy.route.gate import Gate


def test_no_more_come_in_than_may() -> None:
    gate = Gate("small", 2)
    with gate.entered(), gate.entered():
        with pytest.raises(TooManyRequests, match="small has 2"), gate.entered():
            pass
        assert gate.num_inside == 2
    with pytest.raises(RuntimeError), gate.entered():
        raise RuntimeError
    assert gate.num_inside == 0


def test_without_a_limit_all_come_in() -> None:
    gate = Gate("small", None)
    with gate.entered(), gate.entered(), gate.entered():
        assert gate.num_inside == 3
