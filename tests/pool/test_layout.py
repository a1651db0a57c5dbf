"""Layers on devices: as llama.cpp would, and as memory allows."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specproxy.pool.layout import Burden, Load, Place, assign, choose_split, largest_context, loads
from specproxy.pool.sizes import GIB

BURDEN = Burden(
    layer_bytes=(GIB // 10,) * 10,
    kv_bytes=(1000,) * 10,
    output_bytes=GIB // 5,
    embedding_bytes=GIB // 5,
    context_tokens=10_000,
    embedding_length=1024,
    num_vocab=1000,
)


def places(*memory: float, **layers: int) -> list[Place]:
    """Devices a, b, c, ... with GiB of memory."""
    names = "abcdefgh"
    return [
        Place(name, int(each * GIB), layers.get(name))
        for name, each in zip(names, memory, strict=False)
    ]


def test_layers_follow_memory_and_the_output_is_one_more_for_the_last() -> None:
    assert choose_split(places(20, 10, 10), 8) == (4, 2, 3)
    assert choose_split(places(1, 1), 3) == (2, 2)


def test_a_device_that_takes_none_stays_listed_as_zero() -> None:
    assert choose_split(places(24, 16, 4, c=0), 10) == (6, 5, 0)
    assert choose_split(places(24, 16, 4, a=0), 10) == (0, 8, 3)
    assert choose_split(places(24, 16, a=3), 10) == (3, 8)


@given(
    st.lists(
        st.tuples(st.floats(0.5, 200), st.sampled_from([None, None, None, 0])),
        min_size=1,
        max_size=8,
    ).filter(lambda each: any(layers is None for _, layers in each)),
    st.integers(1, 160),
)
def test_llama_cpp_gives_each_device_the_number_asked_for(
    devices: list[tuple[float, int | None]], num_layers: int
) -> None:
    listed = [Place(str(memory), int(memory * GIB), layers) for memory, layers in devices]
    split = choose_split(listed, num_layers)
    owners = assign(num_layers, split)
    assert sum(split) == num_layers + 1
    assert [owners.count(index) for index in range(len(split))] == list(split)
    assert list(owners) == sorted(owners)
    assert all(share == 0 for share, place in zip(split, listed, strict=True) if place.layers == 0)


def test_llama_cpps_own_shares_by_memory() -> None:
    assert assign(30, (24, 16, 0)) == (0,) * 19 + (1,) * 12
    assert assign(3, (1, 0, 1)) == (0, 0, 2, 2)


def test_a_load_counts_weights_cache_and_output() -> None:
    split = choose_split(places(2, 2), 10)
    first, second = loads(BURDEN, places(2, 2), split, output_local=False, margin_bytes=0)
    assert (first.layers, second.layers) == (range(5), range(5, 10))
    assert first.weight_bytes == 5 * (GIB // 10)
    assert first.kv_bytes == 5 * 1000 * 10_000
    assert not first.has_output
    assert second.has_output
    assert second.weight_bytes == first.weight_bytes + BURDEN.output_bytes
    assert first.spare_bytes == 2 * GIB - first.total_bytes
    local = loads(BURDEN, places(2, 2), split, output_local=True, margin_bytes=0)
    assert not any(load.has_output for load in local)
    assert local[0] == first
    (_, margined) = loads(BURDEN, places(2, 2), split, output_local=True, margin_bytes=7)
    assert margined.spare_bytes == local[1].spare_bytes - 7


def test_the_largest_context_is_the_one_that_just_fits() -> None:
    tight = places(0.65, 2)
    tokens = largest_context(BURDEN, found_with(BURDEN, tight))
    assert 0 < tokens < BURDEN.context_tokens
    just = replace(BURDEN, context_tokens=tokens)
    assert all(load.fits for load in found_with(just, tight))
    more = replace(BURDEN, context_tokens=tokens + 1)
    assert not all(load.fits for load in found_with(more, tight))
    assert largest_context(BURDEN, found_with(BURDEN, places(0.5, 2))) == 0


def found_with(burden: Burden, listed: list[Place]) -> tuple[Load, ...]:
    return loads(burden, listed, (6, 5), output_local=True, margin_bytes=0)
