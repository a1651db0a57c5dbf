"""The file that describes a pool: its machines, devices, models and links. Strict and frozen.

What the proxy itself does stands in its own settings; this file says what runs where.
"""

import ipaddress
import socket
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from specproxy.core.worth import N_MATCH, N_MAX
from specproxy.errors import ConfigError
from specproxy.settings import CacheType, OwnPath, Section, read_yaml

_TAILSCALE = ipaddress.IPv4Network("100.64.0.0/10")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _checked_word(word: str) -> str:
    """What becomes a word of a command line or a host of ssh's: nothing that reads as an option."""
    if word.startswith("-") or any(map(str.isspace, word)) or not word.isprintable():
        raise ValueError("must not begin with a dash or hold spaces")
    return word


Word = Annotated[str, Field(min_length=1), AfterValidator(_checked_word)]


def _without_home(path: Path) -> Path:
    if path.parts and path.parts[0].startswith("~"):
        raise ValueError("must be written out: `~` is another folder on each machine")
    return path


AnyPath = Annotated[Path, AfterValidator(_without_home)]
"""A path of this machine's or another's."""


class LinkSection(Section):
    """What is known of the network to a worker."""

    rtt_ms: float = Field(0.5, ge=0)
    mbit_s: float = Field(1000.0, gt=0)


class WorkerSection(Section):
    """A machine's device, lent to the pool by an RPC server."""

    name: str = Field(pattern=_NAME)
    host: Word
    port: int = Field(50052, ge=1, le=65535)
    device: Word | None = None
    memory_gib: float = Field(gt=0)
    layers: int | None = Field(None, ge=0)
    num_threads: int = Field(1, ge=1)
    cache: bool = True
    ssh: Word | None = None
    llama: AnyPath | None = None
    link: LinkSection = LinkSection()

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"


class DeviceSection(Section):
    """A device of the coordinator's own machine, as llama.cpp calls it."""

    name: Word
    memory_gib: float = Field(gt=0)
    layers: int | None = Field(None, ge=0)


class CoordinatorSection(Section):
    """The process that has the model's file and samples."""

    kind: Literal["llama-server", "specproxy"] = "llama-server"
    host: Word = "127.0.0.1"
    port: int = Field(8080, ge=1, le=65535)
    memory_gib: float = Field(gt=0)
    devices: tuple[DeviceSection, ...] = ()
    num_threads: int = Field(1, ge=1)
    api_key_file: AnyPath | None = None
    ssh: Word | None = None
    llama: AnyPath | None = None

    @property
    def url(self) -> str:
        return url_of(self.host, self.port)


class TargetSection(Section):
    """The model that answers, and how much it must hold."""

    model: AnyPath
    context_tokens: int = Field(16384, ge=256)
    users: int = Field(2, ge=1, le=127)
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    n_match: int = Field(N_MATCH, ge=1, le=64)
    n_max: int = Field(N_MAX, ge=1, le=64)


class DraftSection(Section):
    """The small model that runs where the proxy runs."""

    model: OwnPath
    num_threads: int = Field(1, ge=1)
    gpu_layers: int = Field(0, ge=0)


class ProxySection(Section):
    """Where clients connect."""

    host: Word = "127.0.0.1"
    port: int = Field(8088, ge=1, le=65535)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port)


class PoolFile(Section):
    """A pool."""

    name: str = Field(pattern=_NAME)
    target: TargetSection
    draft: DraftSection | None = None
    coordinator: CoordinatorSection
    workers: tuple[WorkerSection, ...] = Field(min_length=1)
    proxy: ProxySection | None = None
    margin_gib: float = Field(0.5, ge=0)

    @model_validator(mode="after")
    def _has_no_twins(self) -> Self:
        for kind in ("name", "endpoint"):
            said = [getattr(worker, kind) for worker in self.workers]
            twice = next((each for each in said if said.count(each) > 1), None)
            if twice is not None:
                raise ValueError(f"two workers have the {kind} {twice}")
        return self

    @property
    def num_slots(self) -> int:
        """Slots of the target: one for each user, and the one for seeds."""
        seeds = 1 if self.coordinator.kind == "llama-server" else 0
        return self.target.users + seeds


def read_pool(path: Path) -> PoolFile:
    """Read a pool's file.

    Raises:
        ConfigError: it cannot be read, or which key is wrong.
    """
    content = read_yaml(path, "pool file", remedy="Start from one of those in configs/pools/.")
    try:
        return PoolFile.model_validate(content)
    except ValidationError as error:
        raise ConfigError(
            f"{path}: {_explain(error)}", remedy="configs/pools/lan.yaml explains every key."
        ) from error


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"]) or "the pool"
        text = item["msg"].removeprefix("Value error, ")
        lines.append(f"{key}: {'no such key' if item['type'] == 'extra_forbidden' else text}.")
    return " ".join(lines)


def public_reason(host: str) -> str | None:
    """Why a worker must not listen at `host`: RPC has no authentication. None: it may."""
    try:
        addresses = [ipaddress.ip_address(host)]
    except ValueError:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return None  # said where it is connected to
        addresses = [ipaddress.ip_address(each[4][0]) for each in found]
    for address in addresses:
        if address.is_unspecified:
            return f"{host} is every interface, also those that the internet reaches"
        if address.version == 6:
            return f"{host} is IPv6, which llama.cpp's RPC does not speak"
        if not address.is_private and address not in _TAILSCALE:
            return f"{host} is a public address"
    return None


def url_of(host: str, port: int) -> str:
    """What listens at `host`, as its own machine reaches it where that is every interface."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(host: str) -> bool:
    """Whether `host` is this machine: only then can one bind to it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
