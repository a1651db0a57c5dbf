"""A model on disk, in one file or several: what it is, and how many bytes lie in which layer.

Invariant: the parts of a split model are complete and belong together, or reading it fails.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from specproxy.errors import ConfigError
from specproxy.pool.gguf.header import Header, Tensor, Value, read_header

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_LAYER = re.compile(r"blk\.(\d+)\.")
MAX_LAYERS = 4096


@dataclass(frozen=True)
class ModelFile:
    """A model's headers, taken together.

    Attributes:
        path: its file; of a split model the first part.
        paths: all of its files, in order.
        metadata: of the first part, which has all.
        tensors: of all parts.
        file_bytes: of all parts.
    """

    path: Path
    paths: tuple[Path, ...]
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int

    @property
    def name(self) -> str:
        return self.text("general.name") or self.path.stem

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @property
    def is_vocabulary_only(self) -> bool:
        return not self.tensors

    @property
    def num_layers(self) -> int:
        return self.count("block_count")

    @property
    def context_length(self) -> int:
        """Tokens that it was trained for; 0 where it does not say."""
        return self.count("context_length")

    @property
    def embedding_length(self) -> int:
        return self.count("embedding_length")

    @property
    def chat_template(self) -> str:
        return self.text("tokenizer.chat_template")

    @property
    def tokens(self) -> list[str]:
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return [str(token) for token in tokens] if isinstance(tokens, list) else []

    @cached_property
    def num_vocab(self) -> int:
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return len(tokens) if isinstance(tokens, list) else self.count("vocab_size")

    @cached_property
    def num_parameters(self) -> int:
        return sum(tensor.num_elements for tensor in self.tensors)

    @cached_property
    def weight_bytes(self) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors)

    @cached_property
    def layer_bytes(self) -> tuple[int, ...]:
        """Weights of each layer."""
        sizes = [0] * self.num_layers
        for tensor in self.tensors:
            layer = _LAYER.match(tensor.name)
            if layer is not None and int(layer[1]) < len(sizes):
                sizes[int(layer[1])] += tensor.num_bytes
        return tuple(sizes)

    @cached_property
    def embedding_bytes(self) -> int:
        """Of the input embedding, which stays in the coordinator's memory."""
        return self._bytes_of("token_embd.")

    @property
    def has_own_output(self) -> bool:
        """Whether the output layer is another tensor than the embedding."""
        return bool(self._bytes_of("output."))

    @cached_property
    def output_bytes(self) -> int:
        """Of the output layer: a copy of the embedding where the two are tied."""
        own = self._bytes_of("output.") or self._bytes_of("token_embd.weight")
        return own + self._bytes_of("output_norm.")

    @cached_property
    def types(self) -> dict[str, int]:
        """Bytes by type of the elements, the most first."""
        found: dict[str, int] = {}
        for tensor in self.tensors:
            found[tensor.type_name] = found.get(tensor.type_name, 0) + tensor.num_bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def text(self, key: str) -> str:
        """A string of the metadata; empty where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def own(self, key: str) -> Value | None:
        """A key of the architecture's own: `own("block_count")` reads `llama.block_count`."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def count(self, key: str) -> int:
        """A number of the architecture's own; 0 where there is none."""
        value = self.own(key)
        return value if isinstance(value, int) and value > 0 else 0

    def _bytes_of(self, prefix: str) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors if tensor.name.startswith(prefix))


def read_model(path: Path) -> ModelFile:
    """Read a model's headers; any part of a split model stands for all of it.

    Raises:
        ConfigError: a file is missing or broken, or the parts do not belong together.
    """
    paths = parts_of(path)
    headers = [read_header(each) for each in paths]
    _check_parts(headers)
    first = headers[0]
    model = ModelFile(
        path=first.path,
        paths=tuple(paths),
        metadata=first.metadata,
        tensors=tuple(tensor for header in headers for tensor in header.tensors),
        file_bytes=sum(header.file_bytes for header in headers),
    )
    if not model.architecture:
        raise ConfigError(f"{path} does not say its architecture.", remedy="Is it a model?")
    if model.num_layers > MAX_LAYERS:
        raise ConfigError(f"{path} is broken: it claims {model.num_layers} layers.")
    return model


def parts_of(path: Path) -> list[Path]:
    """All files of a model by its name: `x-00002-of-00003.gguf` is one of three."""
    part = _PART.fullmatch(path.name)
    if part is None:
        return [path]
    count = int(part["count"])
    return [
        path.with_name(f"{part['stem']}-{number:05}-of-{count:05}.gguf")
        for number in range(1, count + 1)
    ]


def _check_parts(headers: list[Header]) -> None:
    first = headers[0]
    claimed = first.metadata.get("split.count", 1)
    if claimed not in (0, len(headers)):
        raise ConfigError(
            f"{first.path} is one of {claimed} parts, but its name does not say so.",
            remedy="Give the parts their names back: NAME-00001-of-00003.gguf.",
        )
    if len(headers) == 1:
        return
    for number, header in enumerate(headers):
        if (header.metadata.get("split.no"), header.metadata.get("split.count")) != (
            number,
            len(headers),
        ):
            raise ConfigError(
                f"{header.path} is not part {number + 1} of {len(headers)}, as its name says.",
                remedy="Copy that part again.",
            )
    expected = first.metadata.get("split.tensors.count")
    num_tensors = sum(len(header.tensors) for header in headers)
    if expected not in (None, num_tensors):
        raise ConfigError(
            f"The parts of {first.path} hold {num_tensors} tensors of {expected}.",
            remedy="They are of different models or runs; copy all of them again.",
        )
