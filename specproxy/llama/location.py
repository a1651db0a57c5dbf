"""Where llama.cpp's files lie on this machine: paths only, nothing is loaded or run.

Invariant: a cached build is named by the version of the installed bindings, the processor features
it was compiled for and the recipe, so that a folder found here fits the bindings and this machine.
"""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from pathlib import Path

from specproxy.errors import SetupError

DIRECTORY_VARIABLE = "SPECPROXY_LLAMA_DIR"
LIBRARY_PATH_VARIABLE = "LLAMA_CPP_LIB_PATH"
BINDINGS = "llama-cpp-python"
RECIPE = 1
"""Raised whenever `pool.build` compiles something else than before from the same sources."""
STAMP = "complete.json"
"""Written last into a cached build; without it the folder does not count."""

_FEATURES = {
    "avx": ("avx",),
    "avx2": ("avx2",),
    "fma": ("fma",),
    "f16c": ("f16c",),
    "bmi2": ("bmi2",),
    "avx512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
    "avx512_vbmi": ("avx512vbmi",),
    "avx512_vnni": ("avx512_vnni",),
}
"""Our name (ggml's option in lower case) to the kernel's flags it needs. Never AMX: virtual
machines report it and then trap on it."""


def cache_folder() -> Path:
    """Folder for builds and demo models, outside the checkout; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "specproxy"


def bindings_version() -> str:
    """Version of the installed llama-cpp-python, without importing it.

    Raises:
        SetupError: it is not installed.
    """
    try:
        return importlib.metadata.version(BINDINGS)
    except importlib.metadata.PackageNotFoundError as error:
        raise SetupError(f"{BINDINGS} is not installed.", remedy="Run `make setup`.") from error


def cpu_features(cpuinfo: str | None = None) -> tuple[str, ...]:
    """Vector extensions to compile for; none where the processor is no x86.

    Args:
        cpuinfo: text of /proc/cpuinfo; read from there when None.
    """
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    return tuple(name for name, needed in _FEATURES.items() if flags.issuperset(needed))


def build_folder(features: tuple[str, ...] | None = None) -> Path:
    """Folder of the cached build that fits the bindings and this machine; it may not exist."""
    features = cpu_features() if features is None else features
    short = [name.replace("avx512_", "") for name in features if name not in _implied(features)]
    key = "-".join([platform.machine() or "unknown", *short])
    return cache_folder() / f"llama.cpp-{bindings_version()}-{key}-r{RECIPE}"


def cached_build() -> Path | None:
    """The cached build's folder, if it is complete."""
    folder = build_folder()
    return folder if os.path.isfile(folder / STAMP) else None


def find_directory() -> Path | None:
    """Folder of llama.cpp's tools: the user's own, else the cached build. PATH is not searched."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser() if named else cached_build()


def find_libraries() -> Path:
    """Folder of a libllama for the bindings.

    Looked for in LLAMA_CPP_LIB_PATH, SPECPROXY_LLAMA_DIR, the cached build, then inside the
    installed llama-cpp-python.

    Raises:
        SetupError: there is none.
    """
    named = os.environ.get(LIBRARY_PATH_VARIABLE)
    if named:
        return Path(named)
    directory = find_directory()
    for folder in (directory, directory and directory.parent / "lib", _bundled()):
        if folder and holds_libllama(folder):
            return folder
    raise SetupError(
        "No libllama was found.",
        remedy=f"Run `make setup`, or set {DIRECTORY_VARIABLE} to the folder of a llama.cpp build "
        f"with shared libraries that fits {BINDINGS} {bindings_version()}.",
    )


def holds_libllama(folder: Path) -> bool:
    """Whether `folder` has libllama as a shared library."""
    return any(os.path.exists(folder / f"libllama.{suffix}") for suffix in ("so", "dylib"))


def which(names: tuple[str, ...], directory: Path | None = None) -> Path | None:
    """The first of `names` that is an executable in `directory`, or on PATH when None."""
    path = None if directory is None else os.pathsep.join(map(str, (directory, directory / "bin")))
    found = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    return Path(found) if found else None


def _implied(features: tuple[str, ...]) -> set[str]:
    """Features that need no mention in a folder's name, because every AVX2 machine has them."""
    base = {"avx", "fma", "f16c", "bmi2"}
    return base if base | {"avx2"} <= set(features) else set()


def _bundled() -> Path | None:
    """The library folder of a llama-cpp-python wheel that brings its own."""
    spec = importlib.util.find_spec("llama_cpp")
    return Path(spec.origin).parent / "lib" if spec and spec.origin else None
