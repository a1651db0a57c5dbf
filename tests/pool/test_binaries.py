"""Where llama.cpp is looked for, and in which order."""

from pathlib import Path

import pytest

from specproxy.errors import SetupError
from specproxy.llama import location
from specproxy.llama.location import cached_build, holds_libllama
from specproxy.pool.binaries import find_binaries

AMX_MACHINE = (
    "processor : 0\nflags : fpu sse4_2 avx f16c bmi1 avx2 bmi2 fma avx512f avx512dq avx512cd "
    "avx512bw avx512vl avx512vbmi avx512_vnni avx512_bf16 amx_bf16 amx_tile amx_int8\n"
)
OLD_MACHINE = "processor : 0\nflags : fpu sse4_2 avx f16c\n"
ARM_MACHINE = "processor : 0\nFeatures : fp asimd\n"


def tools(folder: Path, *names: str, library: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or ("llama-server", "ggml-rpc-server"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    if library:
        (folder / "libllama.so").touch()
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tools(tmp_path / "path", "ls", library=False)))
    monkeypatch.delenv(location.DIRECTORY_VARIABLE, raising=False)
    monkeypatch.delenv(location.LIBRARY_PATH_VARIABLE, raising=False)


def test_argument_over_variable_over_path_over_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError, match="make setup"):
        find_binaries()

    cached = tools(location.build_folder())
    with pytest.raises(SetupError):  # not complete
        find_binaries()
    (cached / location.STAMP).touch()
    assert find_binaries().server == cached / "llama-server"
    assert find_binaries().libraries == cached
    assert location.find_libraries() == cached

    tools(tmp_path / "path", "llama-server", library=False)
    assert find_binaries().server.parent == cached  # no worker beside it
    tools(tmp_path / "path", "rpc-server", library=False)
    assert find_binaries().worker == tmp_path / "path" / "rpc-server"
    assert find_binaries().libraries is None

    own = tools(tmp_path / "own")
    monkeypatch.setenv(location.DIRECTORY_VARIABLE, str(own))
    assert find_binaries().server.parent == own
    assert location.find_libraries() == own

    given = tools(tmp_path / "given" / "bin")
    assert find_binaries(given.parent).server.parent == given


def test_a_named_folder_without_the_tools_is_an_error_not_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools(location.build_folder()) / location.STAMP).touch()
    monkeypatch.setenv(location.DIRECTORY_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(SetupError, match="nowhere"):
        find_binaries()


def test_without_any_libllama_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "_bundled", lambda: None)
    with pytest.raises(SetupError, match="make setup"):
        location.find_libraries()


def test_amx_is_never_compiled_for() -> None:
    assert location.cpu_features(AMX_MACHINE) == (
        *("avx", "avx2", "fma", "f16c", "bmi2"),
        *("avx512", "avx512_vbmi", "avx512_vnni"),
    )
    assert location.cpu_features(OLD_MACHINE) == ("avx", "f16c")
    assert location.cpu_features(ARM_MACHINE) == ()


def test_machines_that_differ_do_not_share_a_build() -> None:
    machines = (AMX_MACHINE, OLD_MACHINE, ARM_MACHINE)
    folders = {location.build_folder(location.cpu_features(machine)) for machine in machines}
    assert len(folders) == len(machines)
    assert all(location.bindings_version() in folder.name for folder in folders)


def test_what_cannot_be_looked_at_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = tmp_path / ("x" * 300)
    assert not holds_libllama(forbidden)
    monkeypatch.setenv("XDG_CACHE_HOME", str(forbidden))
    assert cached_build() is None
