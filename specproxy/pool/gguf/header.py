"""The header of one GGUF file: its metadata and where its tensors lie. The weights are not read.

The `gguf` package's own reader maps the whole file, takes seconds for a large vocabulary, and
loops for ever on an array whose length is a lie; so only its tables of types are used.
Source: ggml/include/gguf.h of llama.cpp.

Invariant: nothing is believed that the file's size does not allow; a broken or hostile file ends
in a ConfigError, in time and memory of the order of its header.
"""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from specproxy.errors import ConfigError

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

_VERSIONS = (2, 3)
_MAX_DIMS = 4
_MAX_KEY_BYTES = 1 << 16
_MAX_ALIGNMENT = 1 << 20
_MIN_KEY_VALUE_BYTES = 8 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 4 + 4 + 8
_SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file.

    Attributes:
        shape: ggml's order, the innermost dimension first.
        type_name: of its elements, as `Q4_K`.
        offset: from the file's begin, bytes.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    num_bytes: int

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the weights.

    Attributes:
        metadata: keys to values, arrays as lists.
        file_bytes: size of the file.
    """

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int


def read_header(path: Path) -> Header:
    """Read the header of `path`.

    Raises:
        ConfigError: there is no such file, it is no GGUF, or one that is broken.
    """
    try:
        with path.open("rb", buffering=1 << 20) as file:
            return _Reader(path, file, os.fstat(file.fileno()).st_size).read()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Give the path of a GGUF file.",
        ) from error


class _Reader:
    """A cursor over the header that knows how much can still come."""

    def __init__(self, path: Path, file: BinaryIO, file_bytes: int) -> None:
        self._path = path
        self._file = file
        self._file_bytes = file_bytes
        self._at = 0

    def read(self) -> Header:
        version, num_tensors, num_keys = self._preamble()
        metadata = self._metadata(num_keys)
        infos = [self._tensor_info() for _ in range(num_tensors)]
        names = {name for name, *_ in infos}
        if len(names) != len(infos):
            raise self._broken("two of its tensors have the same name")
        alignment = self._alignment(metadata)
        start = -(-self._at // alignment) * alignment
        tensors = tuple(self._tensor(*info, start, alignment) for info in infos)
        return Header(self._path, version, metadata, tensors, self._file_bytes)

    def _preamble(self) -> tuple[int, int, int]:
        if self._file_bytes < 24 or self._take(4) != b"GGUF":
            raise ConfigError(
                f"{self._path} is no GGUF file.", remedy="Give a model in llama.cpp's format."
            )
        version = self._number("I")
        if version & 0xFFFF == 0:
            raise self._broken("it is written for big-endian machines")
        if version not in _VERSIONS:
            raise self._broken(f"its format version {version} is not one of {_VERSIONS}")
        num_tensors, num_keys = self._number("Q"), self._number("Q")
        self._allow(num_tensors, _MIN_TENSOR_BYTES, "tensors")
        self._allow(num_keys, _MIN_KEY_VALUE_BYTES, "metadata keys")
        return version, num_tensors, num_keys

    def _metadata(self, num_keys: int) -> dict[str, Value]:
        metadata: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._string(_MAX_KEY_BYTES)
            if key in metadata:
                raise self._broken(f"the key {key[:80]!r} comes twice")
            metadata[key] = self._value(self._value_type())
        return metadata

    def _value(self, kind: GGUFValueType) -> Value:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind == GGUFValueType.ARRAY:
            return self._array()
        return self._number(_SCALARS[kind])

    def _array(self) -> Value:
        kind, count = self._value_type(), self._number("Q")
        if kind == GGUFValueType.ARRAY:
            raise self._broken("it has an array of arrays")
        if kind == GGUFValueType.STRING:
            self._allow(count, 8, "strings of an array")
            return [self._string() for _ in range(count)]
        code = _SCALARS[kind]
        size = struct.calcsize(f"<{code}")
        self._allow(count, size, "numbers of an array")
        return list(struct.unpack(f"<{count}{code}", self._take(count * size)))

    def _tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string(_MAX_KEY_BYTES)
        num_dims = self._number("I")
        if num_dims > _MAX_DIMS:
            raise self._broken(f"the tensor {name[:80]!r} has {num_dims} dimensions")
        shape = tuple(self._number("Q") for _ in range(num_dims))
        return name, shape, self._number("I"), self._number("Q")

    def _tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        type_number: int,
        offset: int,
        start: int,
        alignment: int,
    ) -> Tensor:
        try:
            kind = GGMLQuantizationType(type_number)
        except ValueError as error:
            raise self._broken(
                f"the tensor {name[:80]!r} has unknown type {type_number}"
            ) from error
        block_elements, block_bytes = GGML_QUANT_SIZES[kind]
        if (shape[0] if shape else 1) % block_elements:
            raise self._broken(f"rows of the tensor {name[:80]!r} are no whole {kind.name} blocks")
        if offset % alignment:
            raise self._broken(f"the tensor {name[:80]!r} is not aligned")
        num_bytes = math.prod(shape) // block_elements * block_bytes
        end = start + offset + num_bytes
        if end > self._file_bytes:
            raise self._broken(
                f"the tensor {name[:80]!r} ends at byte {end}, the file at {self._file_bytes}"
            )
        return Tensor(name, shape, kind.name, start + offset, num_bytes)

    def _alignment(self, metadata: Mapping[str, Value]) -> int:
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or isinstance(alignment, bool):
            raise self._broken("its alignment is no number")
        if not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._broken(f"its alignment {alignment} is no power of two")
        return alignment

    def _value_type(self) -> GGUFValueType:
        number = self._number("I")
        try:
            return GGUFValueType(number)
        except ValueError as error:
            raise self._broken(f"it has a value of unknown type {number}") from error

    def _string(self, max_bytes: int | None = None) -> str:
        length = self._number("Q")
        if max_bytes is not None and length > max_bytes:
            raise self._broken(f"it has a name of {length} bytes")
        self._allow(length, 1, "bytes of a string")
        return self._take(length).decode("utf-8", "backslashreplace")

    def _number(self, code: str) -> int:
        """One scalar; typed as the commonest."""
        (value,) = struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))
        return value  # type: ignore[no-any-return]

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        self._at += len(data)
        if len(data) < count:
            raise self._broken("it ends within its header")
        return data

    def _allow(self, count: int, item_bytes: int, what: str) -> None:
        if count * item_bytes > self._file_bytes - self._at:
            raise self._broken(f"it claims {count} {what} at byte {self._at} and ends before")

    def _broken(self, reason: str) -> ConfigError:
        return ConfigError(
            f"{self._path} is broken: {reason}.",
            remedy="Copy or download it again, and compare its checksum.",
        )
