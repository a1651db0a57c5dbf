"""Whether a coordinator's model fits into its devices, found out before it is loaded.

Invariant: pure, but for reading the file's header.

What libllama says when memory runs out half-way, over a slow link after minutes, helps nobody.
"""

from collections.abc import Sequence
from pathlib import Path

from specproxy.errors import ConfigError
from specproxy.pool.gguf.kv_cache import kv_cost
from specproxy.pool.gguf.model import ModelFile, read_model
from specproxy.pool.layout import Burden, Load, Place, host_bytes, largest_context, loads
from specproxy.pool.sizes import bytes_text
from specproxy.settings import CoordinatorSettings

_LEAST_CONTEXT = 256


def check_fits(
    settings: CoordinatorSettings,
    places: Sequence[Place],
    *,
    host_free_bytes: int,
    output_local: bool,
) -> None:
    """Compare what the model asks of each device with what that has free.

    Args:
        places: the devices in the model's order, with their free memory.
        output_local: the output layer lies in this machine's memory.

    Raises:
        ConfigError: the file's header cannot be read; or the model does not fit, and what would.
    """
    model = read_model(settings.model)
    if not model.num_layers:
        return  # libllama will say what is wrong with it
    burden = burden_of(model, settings)
    if not places:
        _check_host(settings.model, _all_bytes(burden), host_free_bytes)
        return
    if settings.gpu_layers >= 0:
        return  # an arrangement of the user's own
    split = settings.tensor_split or [float(place.memory_bytes) for place in places]
    found = loads(
        burden, places, _padded(split, len(places)), output_local=output_local, margin_bytes=0
    )
    tight = [load for load in found if not load.fits]
    if tight:
        raise _does_not_fit(settings.model, burden, found, tight)
    _check_host(settings.model, host_bytes(burden, output_local=output_local), host_free_bytes)


def burden_of(model: ModelFile, settings: CoordinatorSettings) -> Burden:
    """What the model asks with these settings; each group has its part of the context."""
    return Burden(
        layer_bytes=model.layer_bytes,
        kv_bytes=kv_cost(model).layer_bytes(settings.cache_type_k, settings.cache_type_v),
        output_bytes=model.output_bytes,
        embedding_bytes=model.embedding_bytes,
        context_tokens=settings.context_tokens,
        embedding_length=model.embedding_length,
        num_vocab=model.num_vocab,
    )


def _padded(split: Sequence[float], count: int) -> list[float]:
    """Shares for all devices; those that are not named get none, as in llama.cpp."""
    return [*split[:count], *[0.0] * (count - len(split))]


def _all_bytes(burden: Burden) -> int:
    weights, kv = burden.of_layers(range(len(burden.layer_bytes)))
    return weights + kv + host_bytes(burden, output_local=True)


def _check_host(path: Path, wanted: int, free: int) -> None:
    if wanted > free:
        raise ConfigError(
            f"{path.name} needs {bytes_text(wanted)} of this machine's memory, and"
            f" {bytes_text(free)} are free.",
            remedy="Add workers, take a smaller quantisation, or shorten"
            " coordinator.context_tokens.",
        )


def _does_not_fit(
    path: Path, burden: Burden, found: Sequence[Load], tight: Sequence[Load]
) -> ConfigError:
    short = ", ".join(
        f"{load.place.name} has {bytes_text(load.place.memory_bytes)} free and would hold"
        f" {bytes_text(load.total_bytes)}"
        for load in tight
    )
    context = largest_context(burden, found) // _LEAST_CONTEXT * _LEAST_CONTEXT
    shorter = f"coordinator.context_tokens: {context} would fit; or " if context else ""
    return ConfigError(
        f"{path.name} does not fit: {short}.",
        remedy=f"{shorter}add workers, shift layers with coordinator.tensor_split, or take a"
        " smaller quantisation. `specproxy pool plan` shows the whole layout.",
    )
