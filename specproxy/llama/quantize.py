"""Another quantisation of a GGUF.

Invariant: the destination appears complete or not at all.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

from specproxy.errors import SetupError
from specproxy.llama.library import load


class FileType(IntEnum):
    """What most tensors of a GGUF are stored as (llama.h, `llama_ftype`)."""

    F16 = 1
    Q4_1 = 3
    Q8_0 = 7
    Q2_K = 10


def quantize(source: Path, destination: Path, file_type: FileType, *, num_threads: int = 0) -> None:
    """Write `source`, quantised or not, as `file_type` to `destination`.

    Args:
        num_threads: 0 takes one per processor.

    Raises:
        SetupError: libllama refused, or there is no libllama.
    """
    bindings = load()
    params = bindings.llama_model_quantize_default_params()
    params.ftype = int(file_type)
    params.allow_requantize = True
    params.nthread = num_threads
    destination.parent.mkdir(parents=True, exist_ok=True)
    with replacing(destination) as temporary:
        code = bindings.llama_model_quantize(
            os.fsencode(source), os.fsencode(temporary), bindings.ctypes.byref(params)
        )
        if code != 0:
            raise SetupError(
                f"libllama could not write {source.name} as {file_type.name} (code {code}).",
                remedy=f"Check the room in {destination.parent}, and that {source} is whole.",
            )


@contextlib.contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A new file beside `destination` that takes its name when the block ends well."""
    handle, name = tempfile.mkstemp(dir=destination.parent, prefix=f".{destination.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)
