"""The groups of settings, each with its bounds. Strict and frozen."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator
from yarl import URL


class Section(BaseModel):
    """A group of settings; an unknown key is an error, and so is an infinite number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _checked_key(key: SecretStr | None) -> SecretStr | None:
    if key is not None and not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        raise ValueError("must be visible ASCII characters without spaces; leave it out for none")
    return key


ApiKey = Annotated[SecretStr | None, AfterValidator(_checked_key)]
ClientKey = Annotated[SecretStr, AfterValidator(_checked_key)]


def _checked_worker(worker: str) -> str:
    host, _, port = worker.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must look like host:port")
    return worker


Worker = Annotated[str, AfterValidator(_checked_worker)]


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("begins with a home that is not known here") from error


OwnPath = Annotated[Path, AfterValidator(_expanded)]
"""A path of this machine's, where `~` is home as in a shell."""


def _checked_origin(origin: str) -> str:
    url = URL(origin)
    if origin != "*" and (not url.host or origin != str(url.origin())):
        raise ValueError("must look like https://host or https://host:port, or be *")
    return origin


Origin = Annotated[str, AfterValidator(_checked_origin)]


class ListenSettings(Section):
    """Where clients connect."""

    host: str = "127.0.0.1"
    port: int = Field(8088, ge=0, le=65535)
    api_key: ApiKey = None
    allow_public_without_key: bool = False
    max_body_bytes: int = Field(256 * 2**20, ge=1024)
    write_s: float = Field(60.0, gt=0)
    ping_s: float | None = Field(15.0, gt=0)
    cors_origins: tuple[Origin, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class TargetSettings(Section):
    """The llama-server that answers."""

    url: str = "http://127.0.0.1:8080"
    api_key: ApiKey = None
    connect_s: float = Field(10.0, gt=0)
    first_byte_s: float = Field(1800.0, gt=0)
    idle_s: float = Field(300.0, gt=0)

    @field_validator("url")
    @classmethod
    def _is_http_url(cls, value: str) -> str:
        url = URL(value)
        if url.scheme not in ("http", "https") or not url.host or any(map(str.isspace, value)):
            raise ValueError("must look like http://host:port")
        if url.user or url.password:
            raise ValueError("must not hold credentials: put the key into target.api_key")
        if url.query_string or url.fragment:
            raise ValueError("must end before ? and #")
        if url.path.rstrip("/").endswith("/v1"):
            raise ValueError("leave out /v1: llama-server's own routes are needed too")
        return value.rstrip("/")


class DraftSettings(Section):
    """The local draft model."""

    model: OwnPath
    num_threads: int = Field(1, ge=1)
    context_tokens: int = Field(8192, ge=256)
    num_sequences: int = Field(16, ge=1, le=64)
    gpu_layers: int = Field(0, ge=0)


class SeedingSettings(Section):
    """How drafted blocks reach the target's n-gram pool."""

    mode: Literal["auto", "off"] = "auto"
    n_match: int | None = Field(None, ge=1, le=64)
    block_tokens: int = Field(4, ge=1, le=64)
    lookahead_tokens: int = Field(72, ge=1, le=256)
    branch_tokens: int = Field(12, ge=0, le=64)
    max_seed_tokens: int = Field(32, ge=4, le=512)
    warm: Literal["auto", "always", "never"] = "auto"
    warm_tokens: int = Field(65, ge=1, le=512)


class FanoutSettings(Section):
    """How many prefixes a round asks a target for that takes no seeds but has slots to spare."""

    mode: Literal["auto", "off"] = "auto"
    block_tokens: int = Field(7, ge=2, le=63)
    warm: Literal["auto", "always", "never"] = "auto"


CacheType = Literal["f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]


class CoordinatorSettings(Section):
    """A target of our own: the model over RPC workers, its passes ours. Replaces llama-server."""

    model: OwnPath
    workers: tuple[Worker, ...] = ()
    tensor_split: tuple[float, ...] | None = None
    gpu_layers: int = Field(-1, ge=-1)
    output_local: bool = True
    context_tokens: int = Field(8192, ge=256)
    num_answers: int = Field(4, ge=1, le=128)
    num_threads: int = Field(1, ge=1)
    groups: int = Field(1, ge=1, le=8)
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    warm: Literal["auto", "always", "never"] = "auto"

    @field_validator("workers")
    @classmethod
    def _are_different(cls, workers: tuple[str, ...]) -> tuple[str, ...]:
        twice = [worker for worker in workers if workers.count(worker) > 1]
        if twice:
            raise ValueError(f"names {twice[0]} twice; a worker serves one connection")
        return workers

    @field_validator("tensor_split")
    @classmethod
    def _are_shares(cls, split: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if split is not None and (min(split, default=0) < 0 or not sum(split) > 0):
            raise ValueError("must be shares of 0 or more, not all 0")
        return split


class PageSettings(Section):
    """The live page at /specproxy/."""

    texts: bool = True


class StateSettings(Section):
    """What is learned of a draft and a target, kept across restarts."""

    keep: bool = True
    path: OwnPath | None = None


class LogSettings(Section):
    """What is logged, and how."""

    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"
