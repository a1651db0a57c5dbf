"""What a benchmark ran on: the machine, and the versions of what matters."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import specproxy

Json = dict[str, Any]


def machine() -> Json:
    """System, processor, cores, and how busy they are now."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_1m": load and round(load, 2),
    }


def versions(llama_build: str) -> Json:
    """Args:
    llama_build: version that the servers give themselves.
    """
    return {
        "specproxy": specproxy.__version__,
        "llama_server": llama_build,
        "llama_cpp_python": importlib.metadata.version("llama-cpp-python"),
        "python": platform.python_version(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
