"""A GGUF of the same vocabulary and shape that knows nothing: its weights are drawn at random.

What such a draft says is useless and costs what a real draft costs: the worst case of a policy.

Invariant: header and size are those of the source, byte for byte; the same seed gives the same
file. Every tensor keeps its mean and its deviation, so that nothing over- or underflows.
"""

import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from specproxy.errors import ConfigError
from specproxy.pool.gguf.header import Tensor, read_header

_TYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float16}


def write_random(source: Path, destination: Path, *, seed: int = 0) -> None:
    """Write `source` with other weights to `destination`.

    Raises:
        ConfigError: it is no GGUF, or one whose weights are quantised.
    """
    header = read_header(source)
    quantised = {tensor.type_name for tensor in header.tensors} - set(_TYPES)
    if quantised:
        raise ConfigError(
            f"{source} is quantised ({', '.join(sorted(quantised))}).",
            remedy="Take it as F16, and quantise what is made of it.",
        )
    shutil.copyfile(source, destination)
    rng = np.random.default_rng(seed)
    with destination.open("r+b") as file:
        for tensor in header.tensors:
            _redraw(file, tensor, rng)


def _redraw(file: BinaryIO, tensor: Tensor, rng: np.random.Generator) -> None:
    kind = _TYPES[tensor.type_name]
    file.seek(tensor.offset)
    weights = np.frombuffer(file.read(tensor.num_bytes), kind).astype(np.float32)
    drawn = rng.standard_normal(len(weights), dtype=np.float32)
    drawn = drawn * weights.std() + weights.mean()
    file.seek(tensor.offset)
    file.write(drawn.astype(kind).tobytes())
