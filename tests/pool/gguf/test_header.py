"""Headers: read as the `gguf` package reads them; broken and hostile ones end in a clear error."""

import struct
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specproxy.errors import ConfigError
from specproxy.pool.gguf.header import read_header
from specproxy.pool.models import DemoModels

Writer = Callable[..., Path]
STRING, ARRAY, UINT8 = 8, 9, 0


def by_the_package(path: Path) -> tuple[dict[str, object], list[tuple[object, ...]]]:
    reader = gguf.GGUFReader(path)
    metadata = {
        name: field.contents() for name, field in reader.fields.items() if name[:5] != "GGUF."
    }
    tensors = [
        (each.name, tuple(each.shape.tolist()), each.tensor_type.name, each.data_offset)
        for each in reader.tensors
    ]
    return metadata, tensors


def preamble(num_tensors: int = 0, num_keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys)


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def test_it_reads_what_the_package_reads(written: Writer) -> None:
    metadata = {"general.name": "tiny", "x.flag": True, "x.float": 0.5, "x.list": [1, 2, 3]}
    path = written(metadata=metadata)
    header = read_header(path)
    assert (
        dict(header.metadata),
        [(each.name, each.shape, each.type_name, each.offset) for each in header.tensors],
    ) == by_the_package(path)
    last = max(header.tensors, key=lambda each: each.offset)
    assert last.offset + last.num_bytes <= header.file_bytes == path.stat().st_size


@pytest.mark.real
def test_it_reads_the_demos_model(demo_models: DemoModels) -> None:
    header = read_header(demo_models.draft)
    metadata, tensors = by_the_package(demo_models.draft)
    assert dict(header.metadata) == metadata
    assert [each.name for each in header.tensors] == [name for name, *_ in tensors]
    assert sum(each.num_elements for each in header.tensors) == 134_515_008


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no GGUF file"),
        (b"PK\3\4" + bytes(40), "is no GGUF file"),
        (b"GGUF", "is no GGUF file"),
        (preamble(version=0x03000000), "big-endian"),
        (preamble(version=1), "format version 1"),
        (preamble(num_keys=1), "claims 1 metadata keys"),
        (preamble(num_keys=2**63), "claims 9223372036854775808 metadata keys"),
        (preamble(num_tensors=2**40), "claims 1099511627776 tensors"),
        (preamble(num_keys=1) + struct.pack("<Q", 2**62) + bytes(20), "a name of"),
        (
            preamble(num_keys=1) + string(b"k") + struct.pack("<IQ", STRING, 2**60),
            "claims 1152921504606846976 bytes of a string",
        ),
        (
            preamble(num_keys=1) + string(b"k") + struct.pack("<IIQ", ARRAY, UINT8, 2**60),
            "numbers of an array",
        ),
        (
            preamble(num_keys=1) + string(b"k") + struct.pack("<IIQ", ARRAY, STRING, 2**60),
            "strings of an array",
        ),
        (
            preamble(num_keys=1) + string(b"k") + struct.pack("<IIQ", ARRAY, ARRAY, 1) * 200,
            "an array of arrays",
        ),
        (preamble(num_keys=1) + string(b"k") + struct.pack("<I", 77), "unknown type 77"),
        (
            preamble(num_keys=2) + (string(b"k") + struct.pack("<IB", UINT8, 1)) * 2,
            "'k' comes twice",
        ),
        (
            preamble(num_keys=1) + string(b"general.alignment") + struct.pack("<II", 4, 7),
            "no power of two",
        ),
        (
            preamble(num_keys=1) + string(b"general.alignment") + struct.pack("<II", 4, 0),
            "no power of two",
        ),
        (preamble(1) + string(b"t") + struct.pack("<I", 9) + bytes(40), "has 9 dimensions"),
        (
            preamble(1) + string(b"t") + struct.pack("<IQIQ", 1, 4, 99, 0),
            "unknown type 99",
        ),
        (
            preamble(1) + string(b"t") + struct.pack("<IQIQ", 1, 33, 8, 0),
            "no whole Q8_0 blocks",
        ),
        (preamble(1) + string(b"t") + struct.pack("<IQIQ", 1, 4, 0, 3), "not aligned"),
        (
            preamble(1) + string(b"t") + struct.pack("<IQQIQ", 2, 2**62, 2**62, 0, 0),
            "ends at byte",
        ),
        (
            preamble(2) + (string(b"t") + struct.pack("<IQIQ", 1, 0, 0, 0)) * 2,
            "the same name",
        ),
    ],
)
def test_what_is_broken_is_said_at_once(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    start_s = time.process_time()
    with pytest.raises(ConfigError, match=said) as caught:
        read_header(path)
    assert time.process_time() - start_s < 5  # a lie about a length must not be walked through
    assert str(path) in str(caught.value)
    assert caught.value.remedy


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_header(tmp_path / "nowhere.gguf")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_header(tmp_path)


def test_a_copy_cut_anywhere_is_refused(written: Writer, tmp_path: Path) -> None:
    whole = written(num_layers=1).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [*range(0, 1200, 7), len(whole) - 1000]:
        cut.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            read_header(cut)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 1500), byte=st.integers(0, 255))
def test_a_flipped_byte_is_read_or_refused_and_nothing_else(
    written: Writer, tmp_path: Path, at: int, byte: int
) -> None:
    path = tmp_path / "flipped.gguf"
    if not (tmp_path / "model.gguf").exists():
        written(num_layers=1)
    data = bytearray((tmp_path / "model.gguf").read_bytes())
    data[at] = byte
    path.write_bytes(data)
    try:
        read_header(path)
    except ConfigError as error:
        assert error.remedy  # noqa: PT017
