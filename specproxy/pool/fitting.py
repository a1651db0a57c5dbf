"""What does not fit into a pool, and what would make it fit. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from specproxy.pool.gguf.kv_cache import kv_cost
from specproxy.pool.gguf.model import ModelFile
from specproxy.pool.layout import Burden, Load, largest_context
from specproxy.pool.poolfile import PoolFile
from specproxy.pool.sizes import GIB

_SMALLER_CACHE = "q8_0"
_LEAST_CONTEXT = 256


def advice(
    pool: PoolFile, model: ModelFile, burden: Burden, found: Sequence[Load], host: int
) -> list[str]:
    """One sentence or two for everything that does not fit; nothing if all does."""
    problems = []
    tight = [load for load in found if not load.fits]
    if tight:
        short = ", ".join(f"{load.place.name} by {_gib(-load.spare_bytes)}" for load in tight)
        remedies = _remedies(pool, model, burden, found)
        problems.append(f"The model does not fit: {short}. {remedies}")
    memory = int(pool.coordinator.memory_gib * GIB)
    if host > memory:
        problems.append(
            f"The coordinator's memory of {_gib(memory)} is too small for {_gib(host)}: choose a "
            "machine with more, or a smaller model."
        )
    return problems


def _remedies(pool: PoolFile, model: ModelFile, burden: Burden, found: Sequence[Load]) -> str:
    remedies = []
    context = largest_context(burden, found) // _LEAST_CONTEXT * _LEAST_CONTEXT
    if context >= _LEAST_CONTEXT:
        remedies.append(f"target.context_tokens: {context}")
    if _fits_with_smaller_cache(pool, model, burden, found):
        remedies.append(f"target.cache_type_k and cache_type_v: {_SMALLER_CACHE} at this context")
    free = sum(max(0, load.spare_bytes) for load in found if load.place.layers is None)
    missing = sum(-load.spare_bytes for load in found if not load.fits)
    if any(load.place.layers for load in found) and free > missing:
        remedies.append("leave `layers` out, so that memory decides")
    if not remedies or missing > free:
        remedies.append(f"{_gib(missing)} more memory, or a smaller quantisation of the model")
    return f"It would fit with {', or '.join(remedies)}."


def _fits_with_smaller_cache(
    pool: PoolFile, model: ModelFile, burden: Burden, found: Sequence[Load]
) -> bool:
    if pool.target.cache_type_k != "f16" or pool.target.cache_type_v != "f16":
        return False
    smaller = replace(burden, kv_bytes=kv_cost(model).layer_bytes(_SMALLER_CACHE, _SMALLER_CACHE))
    return largest_context(smaller, found) >= burden.context_tokens


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"
