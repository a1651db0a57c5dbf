"""What a build of llama.cpp needs on this machine, and llama.cpp's options for it."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specproxy.errors import SetupError
from specproxy.llama.location import cpu_features
from specproxy.pool.packages import install

TUNING = Path(__file__).with_name("tuning.cmake")
_REMEDY = "Install a toolchain: `apt-get install build-essential cmake ninja-build`"
_EXTENSIONS = ("avx", "avx2", "fma", "f16c", "bmi2")
_COMPILER_BYTES = 3 << 29
"""What one compiler process may take; 1.5 GB are enough for llama.cpp's largest files."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Programs of a build.

    Attributes:
        cmake: the configuring tool.
        ninja: None where make must do.
        num_jobs: how many compilers may run at once.
    """

    cmake: Path
    ninja: Path | None
    num_jobs: int


def find_toolchain(console: Console) -> Toolchain:
    """The compiler, cmake and ninja or make; cmake and ninja come from their Python packages
    where the system has none.

    Raises:
        SetupError: something is missing and could not be had.
    """
    if _program(os.environ.get("CXX", "").split(" ")[0], "c++", "g++", "clang++") is None:
        raise SetupError("There is no C++ compiler.", remedy=f"{_REMEDY}.")
    cmake, ninja = _program("cmake"), _program("ninja", "ninja-build")
    if cmake is None or (ninja is None and _program("make") is None):
        console.print("No cmake and ninja on this machine; taking their Python packages ...")
        try:
            scripts = install("cmake", "ninja")
        except SetupError as error:
            raise SetupError(f"There is no cmake. {error}", remedy=f"{_REMEDY}.") from error
        cmake, ninja = scripts / "cmake", scripts / "ninja"
    return Toolchain(cmake, ninja, _num_jobs())


def cmake_options(features: tuple[str, ...] | None = None) -> list[str]:
    """Definitions for llama.cpp: no more than the processor has, RPC, no extras.

    Args:
        features: as of `cpu_features`; this machine's when None.
    """
    features = cpu_features() if features is None else features
    on = ["BUILD_SHARED_LIBS", "GGML_RPC", "CMAKE_BUILD_RPATH_USE_ORIGIN"]
    off = [
        *("GGML_NATIVE", "GGML_OPENMP", "LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_ALL_WARNINGS"),
        *("LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI", "LLAMA_BUILD_APP"),
        *("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES"),
    ]
    on += [f"GGML_{name.upper()}" for name in features]
    if features:  # an x86 processor: say no to what it lacks, ggml's defaults assume AVX2
        off += [f"GGML_{name.upper()}" for name in _EXTENSIONS if name not in features]
    return [
        "-DCMAKE_BUILD_TYPE=Release",
        *(f"-D{name}=ON" for name in on),
        *(f"-D{name}=OFF" for name in off),
    ]


def _program(*names: str) -> Path | None:
    found = next(filter(None, (shutil.which(name) for name in names if name)), None)
    return Path(found) if found else None


def _num_jobs() -> int:
    """As many compilers as there are processors, and as fit into memory."""
    num_processors = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        num_processors = len(os.sched_getaffinity(0))
    meminfo = Path("/proc/meminfo")
    text = meminfo.read_text(encoding="ascii") if meminfo.exists() else ""
    available = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    if available is None:
        return num_processors
    return max(1, min(num_processors, int(available[1]) * 1024 // _COMPILER_BYTES))
