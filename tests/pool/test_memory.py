"""What does not fit is said before anything is loaded, with what would."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specproxy.errors import ConfigError
from specproxy.pool.gguf.model import read_model
from specproxy.pool.layout import Place
from specproxy.pool.memory import burden_of, check_fits
from specproxy.settings import CoordinatorSettings

Writer = Callable[..., Path]
GIB = 2**30


def check(
    model: Path, *free_gib: float, host_gib: float = 8.0, local: bool = True, **more: Any
) -> None:
    """Whether it fits into workers that have so much free."""
    check_fits(
        CoordinatorSettings(model=model, **more),
        [Place(f"RPC{at}", int(gib * GIB)) for at, gib in enumerate(free_gib)],
        host_free_bytes=int(host_gib * GIB),
        output_local=local,
    )


def test_enough_is_enough(written: Writer) -> None:
    model = written()
    check(model, 4.0, 4.0)
    check(model)
    check(model, 4.0, local=False)


def test_a_device_that_is_too_small_is_named_with_a_context_that_would_fit(written: Writer) -> None:
    model = written()
    with pytest.raises(ConfigError, match=r"RPC1 has .* free and would hold") as raised:
        check(model, 4.0, 0.05, context_tokens=2**20, tensor_split=(1, 1))
    context = int(re.search(r"context_tokens: (\d+) would fit", str(raised.value))[1])  # type: ignore[index]
    check(model, 4.0, 0.05, context_tokens=context, tensor_split=(1, 1))
    with pytest.raises(ConfigError):
        check(model, 4.0, 0.05, context_tokens=2 * context, tensor_split=(1, 1))


def test_a_device_without_a_share_holds_nothing(written: Writer) -> None:
    check(written(), 4.0, 0.0, tensor_split=(1,))
    check(written(), 4.0, 0.0, tensor_split=(1, 0))


def test_a_smaller_cache_asks_less(written: Writer) -> None:
    model = read_model(written())
    full, small = (
        burden_of(
            model, CoordinatorSettings(model=model.path, cache_type_k=kind, cache_type_v=kind)
        )
        for kind in ("f16", "q8_0")
    )
    assert sum(small.kv_bytes) < sum(full.kv_bytes)


def test_this_machines_memory_counts_without_workers(written: Writer) -> None:
    with pytest.raises(ConfigError, match="of this machine's memory"):
        check(written(), host_gib=0.0001)


def test_an_arrangement_of_ones_own_is_not_judged(written: Writer) -> None:
    check(written(), 0.0, gpu_layers=1)
