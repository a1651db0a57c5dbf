"""The commands that make a pool: one for each worker, the coordinator's, the proxy's. Pure.

What was learned the hard way is in the coordinator's flags: docs/design.md and the README say why.

Invariant: devices are listed workers first and local ones last, and every listed device has its
place in the tensor split, with 0 where it takes no layers.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specproxy.pool.poolfile import PoolFile, WorkerSection, url_of

Role = Literal["worker", "coordinator", "proxy"]

OUTPUT_LAYER = r"^(output|output_norm|token_embd)\.=CPU"
"""llama-server's `--override-tensor` for an output layer in the coordinator's memory."""
_ALL_LAYERS = "999"
_LOG_BUFFERS = "4"
"""The verbosity from which llama-server says how much memory it holds on which device."""


@dataclass(frozen=True, slots=True)
class Command:
    """One process of a pool.

    Attributes:
        name: unique in the pool.
        host: where it listens, and `port`.
        ssh: how its machine is reached; None: it is this one, or somebody starts it by hand.
    """

    role: Role
    name: str
    argv: tuple[str, ...]
    host: str
    port: int
    ssh: str | None

    @property
    def line(self) -> str:
        """For a shell."""
        return shlex.join(self.argv)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port)


def pool_commands(
    pool: PoolFile, split: Sequence[float], *, output_local: bool
) -> tuple[Command, ...]:
    """All commands, in the order in which they are to be started.

    Args:
        split: shares of the workers' devices, then of the local ones.
        output_local: the output layer lies in the coordinator's memory.
    """
    workers = [worker_command(worker) for worker in pool.workers]
    coordinator = coordinator_command(pool, split, output_local=output_local)
    proxy = [] if pool.proxy is None else [proxy_command(pool)]
    return (*workers, coordinator, *proxy)


def worker_command(worker: WorkerSection) -> Command:
    """llama.cpp's RPC server with one device, so that the pool's devices count as its workers."""
    argv = [
        program(worker.llama, "ggml-rpc-server"),
        *("-H", worker.host, "-p", str(worker.port), "-t", str(worker.num_threads)),
        *(("-d", worker.device) if worker.device else ()),
        *(("-c",) if worker.cache else ()),
    ]
    return Command("worker", worker.name, tuple(argv), worker.host, worker.port, worker.ssh)


def coordinator_command(pool: PoolFile, split: Sequence[float], *, output_local: bool) -> Command:
    """llama-server, or specproxy's own coordinator."""
    own = pool.coordinator.kind == "specproxy"
    argv = _specproxy(pool, split, output_local) if own else _server(pool, split, output_local)
    section = pool.coordinator
    return Command("coordinator", section.kind, argv, section.host, section.port, section.ssh)


def proxy_command(pool: PoolFile) -> Command:
    """The proxy, its settings in the environment."""
    assert pool.proxy is not None
    section, draft = pool.proxy, pool.draft
    settings = {
        "ROUTE": pool.name,
        "TARGET__URL": pool.coordinator.url,
        **({} if draft is None else _draft_settings(pool)),
    }
    argv = (*_env(settings), "specproxy", "serve", "--host", section.host)
    return Command(
        "proxy", "proxy", (*argv, "--port", str(section.port)), section.host, section.port, None
    )


def program(folder: Path | None, name: str) -> str:
    """A program of llama.cpp's by its path, or by name where PATH has it."""
    return name if folder is None else str(folder / name)


def _server(pool: PoolFile, split: Sequence[float], output_local: bool) -> tuple[str, ...]:
    section, target = pool.coordinator, pool.target
    devices = [f"RPC{index}" for index in range(len(pool.workers))]
    devices += [device.name for device in section.devices]
    quantised = target.cache_type_v not in ("f16", "f32", "bf16")
    return (
        program(section.llama, "llama-server"),
        *("--model", str(target.model), "--host", section.host, "--port", str(section.port)),
        *(("--api-key-file", str(section.api_key_file)) if section.api_key_file else ()),
        *("--rpc", ",".join(worker.endpoint for worker in pool.workers)),
        *("--device", ",".join(devices), "--tensor-split", shares(split)),
        *("-ngl", _ALL_LAYERS, "--fit", "off", "-t", str(section.num_threads)),
        *(("--override-tensor", OUTPUT_LAYER) if output_local else ()),
        *("-c", str(target.context_tokens), "-np", str(pool.num_slots)),
        *("--kv-unified", "--cache-ram", "0", "-sps", "0"),
        *(("-ctk", target.cache_type_k) if target.cache_type_k != "f16" else ()),
        *(("-ctv", target.cache_type_v) if target.cache_type_v != "f16" else ()),
        *(("-fa", "on") if quantised else ()),
        *("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", str(target.n_match)),
        *("--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", str(target.n_max)),
        *("--metrics", "--slots", "--no-webui", "-lv", _LOG_BUFFERS),
    )


def _specproxy(pool: PoolFile, split: Sequence[float], output_local: bool) -> tuple[str, ...]:
    section, target = pool.coordinator, pool.target
    settings = {
        "COORDINATOR__TENSOR_SPLIT": f"[{shares(split)}]",
        "COORDINATOR__CONTEXT_TOKENS": target.context_tokens,
        "COORDINATOR__NUM_ANSWERS": target.users,
        "COORDINATOR__NUM_THREADS": section.num_threads,
        "COORDINATOR__CACHE_TYPE_K": target.cache_type_k,
        "COORDINATOR__CACHE_TYPE_V": target.cache_type_v,
        "COORDINATOR__OUTPUT_LOCAL": str(output_local).lower(),
    }
    return (
        *(*_env(settings), "specproxy", "coordinator", "--model", str(target.model)),
        *(word for worker in pool.workers for word in ("--worker", worker.endpoint)),
        *("--host", section.host, "--port", str(section.port)),
    )


def _draft_settings(pool: PoolFile) -> dict[str, object]:
    assert pool.draft is not None
    return {
        "DRAFT__MODEL": pool.draft.model,
        "DRAFT__NUM_THREADS": pool.draft.num_threads,
        "DRAFT__GPU_LAYERS": pool.draft.gpu_layers,
    }


def _env(settings: dict[str, object]) -> tuple[str, ...]:
    return ("env", *(f"SPECPROXY_{name}={value}" for name, value in settings.items()))


def shares(split: Sequence[float]) -> str:
    """A tensor split as llama.cpp reads it."""
    return ",".join(f"{share:g}" for share in split)
