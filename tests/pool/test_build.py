"""The build step on a tiny tree laid out like llama.cpp, with the real cmake and compiler."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from specproxy.errors import SetupError
from specproxy.llama import location
from specproxy.pool.build import build_from, ensure_build
from specproxy.pool.locking import locked
from specproxy.pool.toolchain import cmake_options, find_toolchain

CMAKE = """
cmake_minimum_required(VERSION 3.14)
project("llama.cpp" C CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(llama llama.cpp)
add_library(llama-common first.cpp second.cpp json.cpp)
target_link_libraries(llama-common llama)
foreach(tool llama-server ggml-rpc-server)
  add_executable(${tool} main.cpp)
  target_link_libraries(${tool} llama-common)
endforeach()
"""
FILES = {
    "CMakeLists.txt": CMAKE,
    "llama.cpp": "int answer() { return 41; }",
    "first.cpp": "static int mine() { return 1; } int first() { return mine(); }",
    "second.cpp": "int second() { return 0; }",
    "json.cpp": "static int mine() { return 0; } int json() { return mine(); }",
    "main.cpp": "int answer(); int first(); int main() { return answer() + first(); }",
}
HOLDER = """
import pathlib, sys, time
from rich.console import Console
from specproxy.pool.locking import locked
with locked(pathlib.Path(sys.argv[1]), what="x", console=Console()):
    print("held", flush=True)
    time.sleep(0.3)
    pathlib.Path(sys.argv[2]).write_text("first")
"""


def archive(folder: Path, **changed: str) -> Path:
    path = folder / "llama_cpp_python-1.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name, text in (FILES | changed).items():
            info = tarfile.TarInfo(f"llama_cpp_python-1/vendor/llama.cpp/{name}")
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))
    return path


def build(tmp_path: Path, **changed: str) -> tuple[Path, str]:
    """The folder of a build and what was told."""
    console = Console(file=io.StringIO(), width=200)
    folder, work = tmp_path / "llama.cpp-1", tmp_path / "work"
    work.mkdir()
    toolchain = find_toolchain(console)
    build_from(archive(tmp_path, **changed), folder, work, toolchain, console)
    assert isinstance(console.file, io.StringIO)
    return folder, console.file.getvalue()


def test_tools_and_library_lie_side_by_side_and_run_from_there(tmp_path: Path) -> None:
    folder, told = build(tmp_path)
    assert location.holds_libllama(folder)
    for tool in ("llama-server", "ggml-rpc-server"):
        moved = os.spawnv(os.P_WAIT, folder / tool, [tool])
        assert moved == 42
    stamp = json.loads((folder / location.STAMP).read_text())
    assert stamp["recipe"] == location.RECIPE
    assert "-DGGML_NATIVE=OFF" in stamp["options"]
    assert "Compiling llama.cpp" in told
    assert "plain way" not in told
    log = (tmp_path / "llama.cpp-1.log").read_text()
    assert "unity" in log.lower()  # grouped sources: the minutes we save


def test_sources_that_cannot_be_grouped_are_compiled_one_by_one(tmp_path: Path) -> None:
    clash = "static int mine() { return 2; } int second() { return mine(); }"
    folder, told = build(tmp_path, **{"second.cpp": clash})
    assert os.spawnv(os.P_WAIT, folder / "llama-server", ["llama-server"]) == 42
    assert "plain way" in told


def test_a_failure_names_the_log_and_leaves_no_build(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"(?s)no_such_thing.*llama\.cpp-1\.log"):
        build(tmp_path, **{"main.cpp": "int main() { return no_such_thing; }"})
    assert not (tmp_path / "llama.cpp-1").exists()
    assert (tmp_path / "llama.cpp-1.log").read_text()


def test_an_archive_without_llama_cpp_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz"):
        pass
    console = Console(file=io.StringIO())
    with pytest.raises(SetupError, match="sources of llama"):
        build_from(path, tmp_path / "x", tmp_path, find_toolchain(console), console)


def test_a_missing_compiler_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv(location.DIRECTORY_VARIABLE, raising=False)
    with pytest.raises(SetupError, match="apt-get install build-essential cmake ninja-build"):
        ensure_build(Console(file=io.StringIO()))


def test_options_follow_the_processor() -> None:
    old = cmake_options(("avx", "f16c"))
    assert {"-DGGML_AVX=ON", "-DGGML_AVX2=OFF", "-DGGML_FMA=OFF"} <= set(old)
    new = cmake_options(("avx", "avx2", "fma", "f16c", "bmi2", "avx512", "avx512_vnni"))
    assert {"-DGGML_AVX512_VNNI=ON", "-DGGML_AVX2=ON"} <= set(new)
    arm = cmake_options(())
    assert not any("AVX" in option for option in arm)
    assert not any("AMX" in option for option in (*old, *new, *arm))


def test_two_set_ups_take_turns(tmp_path: Path) -> None:
    lock, order = tmp_path / "lock", tmp_path / "order"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock, order], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        console = Console(file=io.StringIO(), width=200)
        with locked(lock, what="the thing", console=console):
            assert order.read_text() == "first"
    assert isinstance(console.file, io.StringIO)
    assert "prepares the thing" in console.file.getvalue()
