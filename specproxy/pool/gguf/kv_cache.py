"""What a token costs in the KV cache, layer by layer.

Source: llama.cpp, src/llama-hparams.cpp (n_embd_k_gqa, n_embd_v_gqa) and src/llama-kv-cache.cpp.

Invariant: where the file does not tell the whole truth, the cost is an upper bound: sliding windows
count as full attention, and `KvCost.is_bound` says so.
"""

from dataclasses import dataclass

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from specproxy.pool.gguf.model import ModelFile


@dataclass(frozen=True, slots=True)
class KvCost:
    """Elements that one token keeps in each layer.

    Attributes:
        keys, values: elements per layer.
        is_bound: some layers keep less than this for long contexts.
    """

    keys: tuple[int, ...]
    values: tuple[int, ...]
    is_bound: bool

    def layer_bytes(self, type_k: str, type_v: str) -> tuple[int, ...]:
        """Bytes per token of each layer."""
        return tuple(
            -(-key * _per_block(type_k)[1] // _per_block(type_k)[0])
            + -(-value * _per_block(type_v)[1] // _per_block(type_v)[0])
            for key, value in zip(self.keys, self.values, strict=True)
        )

    def token_bytes(self, type_k: str, type_v: str) -> int:
        """Bytes per token of all layers."""
        return sum(self.layer_bytes(type_k, type_v))


def kv_cost(model: ModelFile) -> KvCost:
    """The cost of `model`; zeros for layers that keep no keys."""
    num_layers = model.num_layers
    heads = _per_layer(model, "attention.head_count") or [0] * num_layers
    kv_heads = _per_layer(model, "attention.head_count_kv") or heads
    width = max(heads, default=0)
    default = model.embedding_length // width if width else 0
    key_length = model.count("attention.key_length") or default
    value_length = model.count("attention.value_length") or default
    if model.count("attention.key_length_mla"):  # the values are a view of the keys
        value_length = 0
    interval = model.count("full_attention_interval")
    if interval:  # the layers between keep a state of fixed size
        kv_heads = [
            each if (layer + 1) % interval == 0 else 0 for layer, each in enumerate(kv_heads)
        ]
    return KvCost(
        keys=tuple(each * key_length for each in kv_heads),
        values=tuple(each * value_length for each in kv_heads),
        is_bound=bool(model.count("attention.sliding_window")),
    )


def _per_layer(model: ModelFile, key: str) -> list[int] | None:
    """A number that is the same in all layers, or one for each; None: not there."""
    value = model.own(key)
    if isinstance(value, list):
        numbers = [max(0, int(each)) for each in value if isinstance(each, int)]
        return (numbers + [0] * model.num_layers)[: model.num_layers]
    return [max(0, value)] * model.num_layers if isinstance(value, int) else None


def _per_block(name: str) -> tuple[int, int]:
    """Elements and bytes of a block of the type."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
    return int(elements), int(size)
