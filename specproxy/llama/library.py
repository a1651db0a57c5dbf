"""libllama, loaded once per process; the only place that imports llama_cpp.

Invariant: the path of the shared libraries is decided before the bindings are imported, for the
bindings load them on import; and libllama's own log goes to the logger `llama.cpp`, never to
standard error: chatter at debug level, its errors at warning level.
"""

import atexit
import ctypes
import functools
import importlib
import logging
import os
from collections import deque
from typing import Any

from specproxy.errors import SetupError
from specproxy.llama.location import LIBRARY_PATH_VARIABLE, find_libraries

_LEVEL_ERROR = 4
_LEVEL_CONTINUE = 5
_log = logging.getLogger("llama.cpp")


class NativeLog:
    """What libllama says, line by line; its last errors are kept for our own messages."""

    def __init__(self) -> None:
        self._level = 0
        self._partial = ""
        self._errors: deque[str] = deque(maxlen=4)
        self._callback: Any = None

    def attach(self, bindings: Any) -> None:
        """Receive libllama's log from now on, until the interpreter exits."""
        self._callback = bindings.llama_log_callback(self._receive)  # ctypes keeps no reference
        bindings.llama_log_set(self._callback, ctypes.c_void_p(0))
        # Nothing may call back into an interpreter that is going away.
        no_callback = bindings.llama_log_callback()
        atexit.register(bindings.llama_log_set, no_callback, ctypes.c_void_p(0))

    def write(self, level: int, text: str) -> None:
        """Take a piece of log as ggml gives it: not always a whole line."""
        if level != _LEVEL_CONTINUE:
            self._level = level
        *lines, self._partial = (self._partial + text).split("\n")
        for line in filter(None, map(str.rstrip, lines)):
            if self._level == _LEVEL_ERROR:
                self._errors.append(line)
                _log.warning("%s", line)
            else:
                _log.debug("%s", line)

    def take_errors(self) -> str:
        """The errors since the last call, one line; empty when there were none."""
        errors = "; ".join(self._errors)
        self._errors.clear()
        return errors

    def _receive(self, level: int, text: bytes, _user_data: object) -> None:
        self.write(level, text.decode("utf-8", "replace"))


@functools.cache
def native_log() -> NativeLog:
    """The process's one log of libllama."""
    return NativeLog()


@functools.cache
def load() -> Any:
    """The low-level bindings (`llama_cpp.llama_cpp`), backend initialised.

    Raises:
        SetupError: no library, or one that does not fit the bindings.
    """
    directory = find_libraries()
    os.environ[LIBRARY_PATH_VARIABLE] = str(directory)
    try:
        bindings: Any = importlib.import_module("llama_cpp.llama_cpp")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise SetupError(
            f"libllama could not be loaded from {directory}: {error}.",
            remedy=f"Run `make setup`, or set {LIBRARY_PATH_VARIABLE} to the folder of a libllama "
            "of the same version as the installed llama-cpp-python.",
        ) from error
    _close_null_files()
    native_log().attach(bindings)
    bindings.llama_backend_init()
    return bindings


def _close_null_files() -> None:
    """Close the two files that the bindings leave open, and that only their wrappers use."""
    utils = importlib.import_module("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        file = getattr(utils, name, None)
        if file is not None:
            file.close()
