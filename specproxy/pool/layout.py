"""Which device gets which layers, and whether they fit. Pure: numbers in, numbers out.

llama.cpp gives device i the layers whose place is below the sum of the first i shares; counts of
layers as shares therefore come out exactly. The output layer counts as one more, after the last.
Source: `load_tensors` in src/llama-model.cpp.

Invariant: `assign` does what llama.cpp does with the same split, in its own precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BATCH_ROWS = 512
"""Rows of a pass at most (llama.cpp's -ub), for which it reserves memory."""
MASK_BYTES = BATCH_ROWS * 4
"""Of the attention mask, for each token of the context."""


@dataclass(frozen=True, slots=True)
class Place:
    """A device that may take layers.

    Attributes:
        name: as the plan shows it.
        memory_bytes: what it has.
        layers: how many it shall take; None: by its memory.
        is_local: it is the coordinator's own.
    """

    name: str
    memory_bytes: int
    layers: int | None = None
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Burden:
    """What a model asks of devices.

    Attributes:
        layer_bytes: weights of each layer.
        kv_bytes: per token and layer.
        output_bytes: weights of the output layer.
        embedding_bytes: weights of the input embedding, in the coordinator's memory.
        context_tokens: tokens that the KV cache holds.
        embedding_length, num_vocab: widths of what passes through.
    """

    layer_bytes: tuple[int, ...]
    kv_bytes: tuple[int, ...]
    output_bytes: int
    embedding_bytes: int
    context_tokens: int
    embedding_length: int
    num_vocab: int

    def of_layers(self, layers: Sequence[int]) -> tuple[int, int]:
        """Bytes of weights and of KV cache for `layers`."""
        weights = sum(self.layer_bytes[layer] for layer in layers)
        return weights, self.context_tokens * sum(self.kv_bytes[layer] for layer in layers)

    @property
    def scratch_bytes(self) -> int:
        """Memory for computing a pass within a layer, an estimate on the safe side: intermediate
        states of a few times the model's width, and the attention mask."""
        return BATCH_ROWS * 4 * 16 * self.embedding_length + self.context_tokens * MASK_BYTES

    @property
    def logit_bytes(self) -> int:
        """Memory for a pass's logits, where the output layer lies."""
        return BATCH_ROWS * self.num_vocab * 4


@dataclass(frozen=True, slots=True)
class Load:
    """What one device is to hold.

    Attributes:
        layers: first and one past the last, or an empty range.
        spare_bytes: what is left of its memory after the margin; negative: it does not fit.
    """

    place: Place
    layers: range
    weight_bytes: int
    kv_bytes: int
    compute_bytes: int
    has_output: bool
    spare_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.compute_bytes

    @property
    def fits(self) -> bool:
        return self.spare_bytes >= 0


def choose_split(places: Sequence[Place], num_layers: int) -> tuple[int, ...]:
    """Layers for each place, the output layer as one more for the last that takes any.

    Places with a number of their own get it; the others share the rest by their memory.
    """
    fixed = sum(place.layers or 0 for place in places)
    rest = max(0, num_layers - fixed)
    weights = [place.memory_bytes if place.layers is None else 0 for place in places]
    whole = sum(weights)
    shares = [rest * weight / whole if whole else 0.0 for weight in weights]
    counts = [int(share) for share in shares]
    by_rest = sorted(range(len(places)), key=lambda at: (counts[at] - shares[at], at))
    for at in by_rest[: rest - sum(counts)]:
        counts[at] += 1 if weights[at] else 0
    counts = [
        count if place.layers is None else place.layers
        for count, place in zip(counts, places, strict=True)
    ]
    takers = [at for at, count in enumerate(counts) if count]
    if takers:
        counts[takers[-1]] += 1
    return tuple(counts)


def assign(num_layers: int, split: Sequence[float]) -> tuple[int, ...]:
    """The device of each layer and, last, of the output layer, when all layers are offloaded.

    Args:
        split: llama.cpp's `--tensor-split`; not all zero.
    """
    bounds = np.cumsum(np.asarray(split, np.float32), dtype=np.float32)
    bounds /= bounds[-1]
    at = np.arange(num_layers + 1, dtype=np.float32) / np.float32(num_layers + 1)
    found = np.searchsorted(bounds, at, side="right")
    return tuple(int(each) for each in np.minimum(found, len(split) - 1))


def loads(
    burden: Burden,
    places: Sequence[Place],
    split: Sequence[float],
    *,
    output_local: bool,
    margin_bytes: int,
) -> tuple[Load, ...]:
    """What each place holds with `split`.

    Args:
        output_local: the output layer lies in the coordinator's memory instead.
    """
    num_layers = len(burden.layer_bytes)
    owners = assign(num_layers, split)
    found = []
    for index, place in enumerate(places):
        own = [layer for layer in range(num_layers) if owners[layer] == index]
        layers = range(own[0], own[-1] + 1) if own else range(0)
        weights, kv = burden.of_layers(layers)
        has_output = owners[-1] == index and not output_local
        compute = burden.scratch_bytes if own else 0
        if has_output:
            weights += burden.output_bytes
            compute += burden.logit_bytes
        margin = margin_bytes if own or has_output else 0
        spare = place.memory_bytes - margin - weights - kv - compute
        found.append(Load(place, layers, weights, kv, compute, has_output, spare))
    return tuple(found)


def host_bytes(burden: Burden, *, output_local: bool) -> int:
    """What the coordinator's memory holds: the embedding, and the output layer if it is local."""
    own = burden.embedding_bytes + burden.scratch_bytes + burden.logit_bytes
    return own + (burden.output_bytes if output_local else 0)


def largest_context(burden: Burden, found: Sequence[Load]) -> int:
    """Tokens of context with which all of `found` would fit; 0: not even without any."""
    tokens = []
    for load in filter(lambda each: each.layers, found):
        per_token = MASK_BYTES + sum(burden.kv_bytes[layer] for layer in load.layers)
        room = load.spare_bytes + load.kv_bytes + MASK_BYTES * burden.context_tokens
        tokens.append(max(0, room) // per_token)
    return min(tokens, default=burden.context_tokens)
