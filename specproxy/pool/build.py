"""Compiles llama-server, ggml-rpc-server and libllama: `python -m specproxy.pool.build`.

The sources are those inside the llama-cpp-python archive of the installed version, so that the
bindings, the server and the workers are of one version, from one compile.
Invariants: the folder of a build appears complete, by a rename; of two set-ups at once the second
waits and takes the first one's build; libllama is never loaded here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from specproxy.errors import SetupError, SpecproxyError
from specproxy.llama import location
from specproxy.pool.binaries import LlamaBinaries, find_binaries
from specproxy.pool.locking import locked
from specproxy.pool.packages import download
from specproxy.pool.toolchain import TUNING, Toolchain, cmake_options, find_toolchain

TARGETS = ("llama-server", "ggml-rpc-server")
_STEP = re.compile(r"^\[(\d+)/(\d+)\]|^\[ *(\d+)%\]")
_PLAIN_INTERVAL_S = 20.0
_TAIL_LINES = 15


def ensure_build(console: Console | None = None) -> LlamaBinaries:
    """llama.cpp's tools and library, compiled when they are not there yet. Blocks for minutes.

    A folder named by SPECPROXY_LLAMA_DIR is taken as it is.

    Raises:
        SetupError: no sources, no compiler, or it did not compile.
    """
    console = console or Console(stderr=True)
    if os.environ.get(location.DIRECTORY_VARIABLE):
        location.find_libraries()
        return find_binaries()
    folder = location.build_folder()
    if location.cached_build() is None:
        lock = folder.with_name(f".{folder.name}.lock")
        with locked(lock, what="llama.cpp", console=console):
            if location.cached_build() is None:  # nobody built it while we waited
                _build(folder, console)
    return find_binaries(folder)


def _build(folder: Path, console: Console) -> None:
    toolchain = find_toolchain(console)
    start_s = time.monotonic()
    prefix = f".{folder.name}.building-"
    for left_over in folder.parent.glob(f"{prefix}*"):  # of a set-up that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as name:
        version = location.bindings_version()
        console.print(f"Fetching the sources of llama.cpp ({location.BINDINGS} {version}) ...")
        archive = download(f"{location.BINDINGS}=={version}", Path(name), binary=False)
        build_from(archive, folder, Path(name), toolchain, console)
    console.print(
        f"llama.cpp is in {folder} ({time.monotonic() - start_s:.0f} s).",
        highlight=False,
        soft_wrap=True,
    )


def build_from(
    archive: Path, folder: Path, work: Path, toolchain: Toolchain, console: Console
) -> None:
    """Compile the sources in `archive` and put the result into `folder`.

    Args:
        work: an existing folder on the file system of `folder`; left as it gets.

    Raises:
        SetupError: it did not compile; names the log, which stays beside `folder`.
    """
    log_path = folder.with_name(f"{folder.name}.log")
    log_path.write_bytes(b"")
    source = unpack(archive, work / "source")
    try:
        tools = _compile(source, work / "tuned", toolchain, log_path, console, tuned=True)
    except SetupError:
        console.print("That did not compile; trying again the plain way ...")
        tools = _compile(source, work / "plain", toolchain, log_path, console, tuned=False)
    stamp = {"sources": archive.name, "recipe": location.RECIPE, "options": cmake_options()}
    (tools / location.STAMP).write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    if folder.exists():  # without its stamp, or we would not be here
        shutil.rmtree(folder)
    tools.rename(folder)


def unpack(archive: Path, destination: Path) -> Path:
    """Unpack the bindings' source archive; the folder of llama.cpp in it.

    Raises:
        SetupError: there is no llama.cpp in it.
    """
    with tarfile.open(archive) as file:
        # Python before 3.11.4 has no filters.
        file.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        file.extractall(destination)
    found = list(destination.glob("*/vendor/llama.cpp/CMakeLists.txt"))
    if not found:
        raise SetupError(f"{archive.name} does not hold the sources of llama.cpp.")
    return found[0].parent


def _compile(
    source: Path,
    build: Path,
    toolchain: Toolchain,
    log_path: Path,
    console: Console,
    *,
    tuned: bool,
) -> Path:
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={toolchain.ninja}"]
    configure = [
        *(str(toolchain.cmake), "-S", str(source), "-B", str(build)),
        *(generator if toolchain.ninja else ["-G", "Unix Makefiles"]),
        *cmake_options(),
        *([f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={TUNING}"] if tuned else []),
    ]
    compile_ = [str(toolchain.cmake), "--build", str(build), "--target", *TARGETS]
    compile_ += ["--parallel", str(toolchain.num_jobs)]
    with _Steps(console, f"Compiling llama.cpp with {toolchain.num_jobs} jobs") as steps:
        _run(configure, log_path, steps)
        _run(compile_, log_path, steps)
    return build / "bin"


def _run(command: list[str], log_path: Path, steps: "_Steps") -> None:
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with (
        log_path.open("a", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                tail.append(line.rstrip())
                steps.see(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        what = " ".join(command[:2])
        raise SetupError(
            f"`{what} ...` failed with code {process.returncode}:\n" + "\n".join(tail) + "\n",
            remedy=f"The whole log is {log_path}.",
        )


class _Steps:
    """Progress of ninja's or make's steps: a bar on a terminal, else a line now and then."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=1.0)
        self._next_line_s = 0.0

    def __enter__(self) -> "_Steps":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def see(self, line: str) -> None:
        """Take a line of the build's output."""
        found = _STEP.match(line)
        if found is None:
            return
        done, total, percent = found.groups()
        share = int(percent) / 100 if percent else int(done) / int(total)
        self._bar.update(self._task, completed=share)
        if not self._console.is_terminal and time.monotonic() >= self._next_line_s:
            self._next_line_s = time.monotonic() + _PLAIN_INTERVAL_S
            self._console.print(f"{self._title}: {share:.0%}", highlight=False)


def main() -> int:
    """Entry point of `python -m specproxy.pool.build`."""
    console = Console(stderr=True)
    try:
        binaries = ensure_build(console)
    except SpecproxyError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        return 1
    console.print(f"llama.cpp: {binaries.server.parent}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
