"""Tiny GGUF files, written by the `gguf` package itself."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

Writer = Callable[..., Path]
WORDS = tuple(f"word{number}" for number in range(32))


def write_model(
    path: Path,
    architecture: str = "llama",
    *,
    own: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    tokens: Sequence[str] = WORDS,
    num_layers: int = 4,
    width: int = 32,
    tied: bool = False,
    tensors: bool = True,
) -> Path:
    """A model with all that a pool asks for; weights of zeros, Q8_0 in the layers.

    Args:
        own: keys of the architecture, which replace the usual ones.
        metadata: other keys.
    """
    writer = gguf.GGUFWriter(path, architecture)
    usual = {
        "block_count": num_layers,
        "context_length": 2048,
        "embedding_length": width,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    }
    for key, value in {**usual, **(own or {})}.items():
        _add(writer, f"{architecture}.{key}", value)
    _add(writer, "tokenizer.ggml.model", "gpt2")
    _add(writer, "tokenizer.ggml.tokens", list(tokens))
    for key, value in (metadata or {}).items():
        _add(writer, key, value)
    if tensors:
        wide = np.zeros((len(tokens), width), np.float16)
        writer.add_tensor("token_embd.weight", wide)
        for layer in range(num_layers):
            blocks = np.zeros((width, width // 32 * 34), np.uint8)
            writer.add_tensor(
                f"blk.{layer}.attn_q.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0
            )
        writer.add_tensor("output_norm.weight", np.zeros(width, np.float32))
        if not tied:
            writer.add_tensor("output.weight", wide)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    kinds = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
    kinds |= {list: writer.add_array, float: writer.add_float32}
    kinds[type(value)](key, value)


@pytest.fixture
def written(tmp_path: Path) -> Writer:
    """Writes a model of a name into the test's folder."""
    return lambda name="model.gguf", *args, **more: write_model(tmp_path / name, *args, **more)
