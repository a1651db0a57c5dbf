"""Models: sizes by layer, models in several files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specproxy.errors import ConfigError
from specproxy.pool.gguf.model import parts_of, read_model
from specproxy.pool.models import DemoModels

Writer = Callable[..., Path]
LAYER = 32 * 34
EMBEDDING = 32 * 32 * 2
NORM = 32 * 4


def test_bytes_lie_where_they_should(written: Writer) -> None:
    model = read_model(written(num_layers=3))
    assert model.layer_bytes == (LAYER,) * 3
    assert model.embedding_bytes == EMBEDDING
    assert model.output_bytes == EMBEDDING + NORM
    assert model.has_own_output
    assert model.weight_bytes == 3 * LAYER + 2 * EMBEDDING + NORM
    assert model.num_parameters == 3 * 32 * 32 + 2 * 32 * 32 + 32
    assert model.types == {"F16": 2 * EMBEDDING, "Q8_0": 3 * LAYER, "F32": NORM}


def test_a_tied_output_is_the_embedding_once_more(written: Writer) -> None:
    model = read_model(written(tied=True))
    assert not model.has_own_output
    assert model.output_bytes == EMBEDDING + NORM


def test_a_vocabulary_only_file_has_no_weights(written: Writer) -> None:
    model = read_model(written(tensors=False))
    assert model.is_vocabulary_only
    assert (model.num_vocab, model.weight_bytes, model.layer_bytes) == (32, 0, (0,) * 4)


@pytest.mark.real
def test_the_demos_model(demo_models: DemoModels) -> None:
    model = read_model(demo_models.target)
    assert (model.architecture, model.num_layers, model.num_vocab) == ("llama", 30, 49152)
    assert model.num_parameters == 134_515_008
    assert set(model.layer_bytes) == {7_082_496}
    assert model.embedding_bytes == 49152 * 576 * 2


def split(written: Writer, number: int, count: int, of: str = "big", **keys: int) -> Path:
    own = {"split.no": number - 1, "split.count": count, "split.tensors.count": 14, **keys}
    return written(f"{of}-{number:05}-of-{count:05}.gguf", metadata=own)


def test_any_part_of_a_split_model_stands_for_all(written: Writer) -> None:
    first, second = split(written, 1, 2), split(written, 2, 2)
    model = read_model(second)
    assert model.paths == (first, second)
    assert model.path == first
    assert model.file_bytes == first.stat().st_size + second.stat().st_size
    assert model.layer_bytes == (2 * LAYER,) * 4
    assert parts_of(Path("a.gguf")) == [Path("a.gguf")]


def test_parts_that_do_not_belong_together_are_refused(written: Writer) -> None:
    first = split(written, 1, 2)
    with pytest.raises(ConfigError, match=r"big-00002-of-00002\.gguf cannot be read"):
        read_model(first)
    second = split(written, 2, 2, **{"split.no": 0})
    with pytest.raises(ConfigError, match="is not part 2 of 2"):
        read_model(second)
    split(written, 2, 2)
    first.rename(first.with_name("renamed.gguf"))
    with pytest.raises(ConfigError, match="one of 2 parts"):
        read_model(first.with_name("renamed.gguf"))
    first = split(written, 1, 2, **{"split.tensors.count": 99})
    with pytest.raises(ConfigError, match="14 tensors of 99"):
        read_model(first)


def test_absurd_numbers_are_refused(written: Writer) -> None:
    with pytest.raises(ConfigError, match="claims 4000000000 layers"):
        read_model(written(own={"block_count": 4_000_000_000}))
    with pytest.raises(ConfigError, match="does not say its architecture"):
        read_model(written(architecture=""))
