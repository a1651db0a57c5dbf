"""What a token costs in the KV cache of models of several families."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specproxy.pool.gguf.kv_cache import kv_cost
from specproxy.pool.gguf.model import read_model

Writer = Callable[..., Path]


@pytest.mark.parametrize(
    ("architecture", "own", "keys", "values"),
    [
        ("llama", {}, [16] * 4, [16] * 4),
        ("gpt2", {"attention.head_count_kv": 4}, [32] * 4, [32] * 4),
        ("qwen3", {"attention.key_length": 64, "attention.value_length": 48}, [128] * 4, [96] * 4),
        ("nemotron", {"attention.head_count_kv": [2, 0, 2, 0]}, [16, 0, 16, 0], [16, 0, 16, 0]),
        ("qwen35", {"full_attention_interval": 4}, [0, 0, 0, 16], [0, 0, 0, 16]),
        (
            "deepseek2",
            {
                "attention.head_count_kv": 1,
                "attention.key_length": 576,
                "attention.value_length": 512,
                "attention.key_length_mla": 192,
            },
            [576] * 4,
            [0] * 4,
        ),
    ],
)
def test_elements_by_layer(
    written: Writer, architecture: str, own: dict[str, Any], keys: list[int], values: list[int]
) -> None:
    cost = kv_cost(read_model(written(architecture=architecture, own=own)))
    assert (list(cost.keys), list(cost.values)) == (keys, values)
    assert not cost.is_bound
    assert cost.token_bytes("f16", "f16") == 2 * (sum(keys) + sum(values))


def test_a_sliding_window_makes_it_an_upper_bound(written: Writer) -> None:
    own = {"attention.sliding_window": 1024}
    assert kv_cost(read_model(written(architecture="gemma3", own=own))).is_bound


def test_smaller_types_cost_their_blocks(written: Writer) -> None:
    cost = kv_cost(read_model(written(own={"attention.key_length": 64})))
    assert cost.layer_bytes("q8_0", "f16") == (128 * 34 // 32 + 16 * 2,) * 4
    assert cost.token_bytes("q4_0", "q4_0") < cost.token_bytes("q8_0", "q8_0")


def test_a_model_that_says_nothing_costs_nothing(written: Writer) -> None:
    own = {"attention.head_count": 0, "attention.head_count_kv": 0}
    assert (
        kv_cost(read_model(written(architecture="mamba", own=own))).token_bytes("f16", "f16") == 0
    )
