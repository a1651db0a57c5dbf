"""Which kinds of proxy a benchmark compares, and what they are called."""

import pytest

from specproxy.bench.kinds import WAYS, ProxyKind, Wanted


def test_the_plain_ones_keep_their_names() -> None:
    wanted = Wanted(("seeding", "fanout", "coordinator"), groups=(1, 2))
    assert [kind.label for kind in wanted.kinds] == [
        "specproxy (seeding)",
        "specproxy (fanout)",
        "specproxy (coordinator)",
        "specproxy (coordinator, 2 groups)",
    ]


def test_each_length_of_the_servers_own_draft_is_a_kind() -> None:
    kinds = Wanted(("seeding", "seeding-on-draft"), draft_ns=(4, 8)).kinds
    assert [(kind.label, kind.draft_n, kind.pool_mode) for kind in kinds] == [
        ("specproxy (seeding)", None, "ngram"),
        ("specproxy (seeding on draft n=4)", 4, "ngram-draft"),
        ("specproxy (seeding on draft n=8)", 8, "ngram-draft"),
    ]


def test_far_ones_and_recorded_ones_stand_beside_the_plain_one() -> None:
    kinds = Wanted(front_rtt_ms=100.0, recorded_ms=20.0).kinds
    assert [kind.label for kind in kinds] == [
        "specproxy (seeding)",
        "specproxy (seeding, recorded 20 ms)",
        "specproxy (seeding, 100 ms away)",
        "specproxy (seeding, 100 ms away, recorded 20 ms)",
    ]
    assert Wanted(recorded_ms=0.0).kinds == [
        ProxyKind("seeding"),
        ProxyKind("seeding", recorded_ms=0.0),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_has_its_pool(way: str) -> None:
    assert Wanted((way,)).kinds[0].pool_mode  # type: ignore[arg-type]
