"""How an engine is built."""

from dataclasses import dataclass
from typing import Literal

Warm = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Sizes of an engine. With several groups, places and KV cells are divided among them.

    Attributes:
        num_places: answers at a time; more wait in line.
        context_tokens: KV cells, shared by the answers of a group.
        num_threads: for what is computed on this machine's processor.
        groups: contexts of the one model, each with its own thread and passes, so that several
            passes are under way on the pool's workers at a time. Each has compute buffers.
        num_branches: sequence ids per group for paths beside the answers' main paths.
        max_rows: of a pass.
        max_outputs: rows of a pass that want logits, so also drafted nodes of a pass, about.
        warm: run numbers of rows that were not run yet while nobody waits: `auto` where a first
            pass takes notably longer than the second.
    """

    num_places: int = 4
    context_tokens: int = 8192
    num_threads: int = 1
    groups: int = 1
    num_branches: int = 16
    max_rows: int = 512
    max_outputs: int = 64
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    warm: Warm = "auto"
