"""A model with other weights: the same header, numbers of the same scale, the same every time."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from specproxy.errors import ConfigError
from specproxy.pool.gguf.header import read_header
from specproxy.pool.gguf.random_weights import write_random

SHAPES = {"token_embd.weight": (32, 64), "output_norm.weight": (64,)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model of F16 and F32 tensors, neither around zero."""
    path, rng = tmp_path / "source.gguf", np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", [f"word{number}" for number in range(32)])
    wide, narrow = (rng.normal(2.0, 0.5, shape) for shape in SHAPES.values())
    writer.add_tensor("token_embd.weight", wide.astype(np.float16))
    writer.add_tensor("output_norm.weight", narrow.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    return {one.name: np.array(one.data, np.float64) for one in gguf.GGUFReader(path).tensors}


def test_only_the_weights_differ(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "random.gguf"
    write_random(source, path)
    start = min(tensor.offset for tensor in read_header(source).tensors)
    ours, theirs = path.read_bytes(), source.read_bytes()
    assert ours[:start] == theirs[:start]
    assert len(ours) == len(theirs)
    before, after = tensors_of(source), tensors_of(path)
    for name, shape in SHAPES.items():
        assert after[name].shape == shape
        assert np.isfinite(after[name]).all()
        assert abs(np.corrcoef(before[name].ravel(), after[name].ravel())[0, 1]) < 0.5
        for figure in (np.mean, np.std):
            assert figure(after[name]) == pytest.approx(figure(before[name]), rel=0.3)


def test_a_seed_gives_the_same_file(source: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.gguf" for number in range(3)]
    for path, seed in zip(paths, (0, 0, 1), strict=True):
        write_random(source, path, seed=seed)
    first, again, other = (path.read_bytes() for path in paths)
    assert first == again
    assert first != other


def test_a_quantised_model_is_refused(tmp_path: Path, written: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="is quantised \\(Q8_0\\)"):
        write_random(written(), tmp_path / "random.gguf")
    assert not (tmp_path / "random.gguf").exists()
