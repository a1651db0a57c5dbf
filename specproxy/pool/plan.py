"""A pool's plan: layers on devices, commands for machines, bytes on links, and what is wrong.

Invariant: a plan with `problems` must not be started; `warnings` may be lived with.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from specproxy.errors import ConfigError
from specproxy.pool.budget import PassCost, pass_cost
from specproxy.pool.commands import Command, pool_commands
from specproxy.pool.fitting import advice
from specproxy.pool.gguf.kv_cache import kv_cost
from specproxy.pool.gguf.model import ModelFile, read_model
from specproxy.pool.layout import (
    Burden,
    Load,
    Place,
    choose_split,
    host_bytes,
    loads,
)
from specproxy.pool.poolfile import PoolFile, public_reason, read_pool
from specproxy.pool.sizes import GIB

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pool's file and its model lead to.

    Attributes:
        split: shares of the workers' devices, then of the local ones.
        output_local: the output layer lies in the coordinator's memory, on its processor.
        loads: what each device holds; empty where the model is not on this machine.
        host_bytes: what the coordinator's memory holds beside the mapped file.
        costs: of a plain pass and of the longest that verifies; empty without the model.
    """

    pool: PoolFile
    split: tuple[float, ...]
    output_local: bool
    commands: tuple[Command, ...]
    loads: tuple[Load, ...]
    host_bytes: int
    costs: tuple[PassCost, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def make_plan(pool: PoolFile, model: ModelFile | None) -> Plan:
    """Plan `pool` for its model; without one, shares go by memory and nothing is checked to fit.

    Raises:
        ConfigError: the file's numbers of layers do not add up.
    """
    places = places_of(pool)
    split: tuple[float, ...]
    if model is None:
        split = _shares_by_memory(pool, places)
    else:
        split = choose_split(places, _num_layers(model, pool, places))
    takers = [place for place, share in zip(places, split, strict=True) if share]
    output_local = not takers[-1].is_local
    problems = [
        f"Worker {worker.name}: {reason}, and llama.cpp's RPC has no authentication: whoever "
        "reaches it may use and overwrite its memory. Bind it to the machine's address in the "
        "LAN or the VPN."
        for worker in pool.workers
        if (reason := public_reason(worker.host)) is not None
    ]
    found: tuple[Load, ...] = ()
    costs: tuple[PassCost, ...] = ()
    host = 0
    warnings = list(_warnings(pool, model))
    if model is not None:
        burden = burden_of(model, pool)
        margin = int(pool.margin_gib * GIB)
        found = loads(burden, places, split, output_local=output_local, margin_bytes=margin)
        host = host_bytes(burden, output_local=output_local)
        problems += advice(pool, model, burden, found, host)
        costs = _costs(pool, model, found, output_local)
    return Plan(
        pool=pool,
        split=split,
        output_local=output_local,
        commands=pool_commands(pool, split, output_local=output_local),
        loads=found,
        host_bytes=host,
        costs=costs,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def places_of(pool: PoolFile) -> list[Place]:
    """All devices in the order of the layers: the workers', then the coordinator's own."""
    remote = [
        Place(worker.name, int(worker.memory_gib * GIB), worker.layers) for worker in pool.workers
    ]
    local = [
        Place(device.name, int(device.memory_gib * GIB), device.layers, is_local=True)
        for device in pool.coordinator.devices
    ]
    return remote + local


def burden_of(model: ModelFile, pool: PoolFile) -> Burden:
    """What the target asks of its devices."""
    target = pool.target
    return Burden(
        layer_bytes=model.layer_bytes,
        kv_bytes=kv_cost(model).layer_bytes(target.cache_type_k, target.cache_type_v),
        output_bytes=model.output_bytes,
        embedding_bytes=model.embedding_bytes,
        context_tokens=target.context_tokens,
        embedding_length=model.embedding_length,
        num_vocab=model.num_vocab,
    )


def _num_layers(model: ModelFile, pool: PoolFile, places: list[Place]) -> int:
    if model.is_vocabulary_only or not model.num_layers:
        raise ConfigError(
            f"{model.path} has no layers to lay out.", remedy="target.model must be a whole model."
        )
    fixed = sum(place.layers or 0 for place in places)
    free = any(place.layers is None for place in places)
    if fixed > model.num_layers or (fixed < model.num_layers and not free):
        raise ConfigError(
            f"Pool {pool.name}: `layers` add up to {fixed}, the model has {model.num_layers}.",
            remedy="Leave `layers` out for at least one device: it takes the rest by its memory.",
        )
    return model.num_layers


def _shares_by_memory(pool: PoolFile, places: list[Place]) -> tuple[float, ...]:
    if any(place.layers for place in places):
        raise ConfigError(
            f"Pool {pool.name} gives devices their `layers`, but {pool.target.model} is not here.",
            remedy="Plan on the machine that has the model, or leave `layers` out (0 may stay).",
        )
    shares = tuple(
        0.0 if place.layers == 0 else round(place.memory_bytes / GIB, 2) for place in places
    )
    if not any(shares):
        raise ConfigError(
            f"Pool {pool.name} has no device that takes layers.", remedy="Give one its `layers`."
        )
    return shares


def _warnings(pool: PoolFile, model: ModelFile | None) -> list[str]:
    found = []
    if model is None:
        found.append(
            f"{pool.target.model} is not on this machine: shares go by memory, and whether they "
            "suffice is not checked. Plan where the model is to know."
        )
    elif model.context_length and pool.target.context_tokens > model.context_length * (
        pool.num_slots
    ):
        found.append(
            f"The model was trained for {model.context_length} tokens; "
            f"{pool.target.context_tokens} cells are more than {pool.num_slots} slots can use."
        )
    section = pool.coordinator
    open_to_others = section.host not in _LOOPBACK
    if open_to_others and section.api_key_file is None and section.kind == "llama-server":
        found.append(
            f"The coordinator listens on {section.host} without a key: set "
            "coordinator.api_key_file, and SPECPROXY_TARGET__API_KEY for the proxy."
        )
    if open_to_others and section.kind == "specproxy":
        found.append(
            f"The coordinator listens on {section.host}: set its key, SPECPROXY_TARGET__API_KEY; "
            "where it is started by hand, also SPECPROXY_LISTEN__API_KEY there, to the same."
        )
    if pool.proxy is not None and pool.proxy.host not in _LOOPBACK:
        found.append(
            f"The proxy listens on {pool.proxy.host}: set SPECPROXY_LISTEN__API_KEY there."
        )
    return found


def _costs(
    pool: PoolFile, model: ModelFile, found: tuple[Load, ...], output_local: bool
) -> tuple[PassCost, ...]:
    links = [
        worker.link
        for worker, load in zip(pool.workers, found, strict=False)
        if load.layers or load.has_output
    ]
    logits_cross = not output_local and not any(
        load.has_output and load.place.is_local for load in found
    )
    return tuple(
        pass_cost(
            links,
            num_rows=num_rows,
            embedding_length=model.embedding_length,
            num_vocab=model.num_vocab,
            logits_cross=logits_cross,
        )
        for num_rows in (1, pool.target.n_max + 1)
    )


def load_plan(path: Path) -> Plan:
    """Read a pool's file, and its model where it is on this machine.

    Raises:
        ConfigError: either is wrong.
    """
    pool = read_pool(path)
    here = os.path.isfile(pool.target.model)  # (Path.is_file raises where it may not look)
    return make_plan(pool, read_model(pool.target.model) if here else None)
