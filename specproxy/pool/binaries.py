"""llama.cpp's tools: which ones a pool runs.

Looked for in the order: a folder given by the caller, SPECPROXY_LLAMA_DIR, PATH, the cached build.
Invariant: nothing is started or compiled here, and both tools come from the same place, for an RPC
worker speaks only with a server of its own protocol version.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from specproxy.errors import SetupError
from specproxy.llama.location import DIRECTORY_VARIABLE, cached_build, holds_libllama, which

SERVER_NAMES = ("llama-server",)
WORKER_NAMES = ("ggml-rpc-server", "rpc-server")
_REMEDY = (
    "Run `make setup` to build them, put both on PATH, "
    f"or set {DIRECTORY_VARIABLE} to the folder of a llama.cpp build with GGML_RPC=ON."
)


@dataclass(frozen=True, slots=True)
class LlamaBinaries:
    """llama.cpp's tools.

    Attributes:
        server: llama-server.
        worker: ggml-rpc-server (rpc-server in older trees).
        libraries: folder of the shared libllama beside them; None where there is none.
    """

    server: Path
    worker: Path
    libraries: Path | None


def find_binaries(directory: Path | None = None) -> LlamaBinaries:
    """The tools to run.

    Args:
        directory: the only place to look, from a setting or an argument.

    Raises:
        SetupError: one of the tools is missing there, or both everywhere.
    """
    named = directory or os.environ.get(DIRECTORY_VARIABLE)
    if named:
        folder = Path(named).expanduser()
        found = _tools_in(folder)
        if found is None:
            raise SetupError(
                f"llama-server or ggml-rpc-server is missing in {folder}.", remedy=_REMEDY
            )
        return found
    for place in (None, cached_build()):
        found = _tools_in(place)
        if found is not None:
            return found
    raise SetupError("llama.cpp's llama-server and ggml-rpc-server were not found.", remedy=_REMEDY)


def _tools_in(folder: Path | None) -> LlamaBinaries | None:
    """Both tools in `folder`, or on PATH when None."""
    server, worker = which(SERVER_NAMES, folder), which(WORKER_NAMES, folder)
    if server is None or worker is None:
        return None
    home = server.resolve().parent
    places = (home, home.parent / "lib")
    return LlamaBinaries(server, worker, next(filter(holds_libllama, places), None))
