"""The direction of imports is the design: what is below knows nothing of what is above."""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "specproxy"
RANKS = {
    "errors": 0,
    "progress": 1,
    "running": 1,
    "settings": 1,
    "core": 1,
    "logs": 2,
    "state": 2,
    "llama": 2,
    "draft": 3,
    "target": 3,
    "pool": 3,
    "coordinator": 3,
    "worker": 3,
    "admission": 4,
    "lookahead": 4,
    "load": 4,
    "session": 5,
    "fanned": 5,
    "verified": 5,
    "route": 7,
    "ways": 6,
    "server": 8,
    "serve": 9,
    "probe": 4,
    "coordinate": 9,
    "bench": 10,
    "testing": 10,
    "equivalence": 11,
    "simulation": 11,
    "demo": 11,
    "pool_cli": 11,
    "bench_cli": 11,
    "probe_cli": 11,
    "equivalence_cli": 12,
    "cli": 13,
}
"""A module imports from lower ranks only; equal ranks do not know each other."""
FILES = sorted(PACKAGE.rglob("*.py"))


def unit_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


UNITS = sorted({unit_of(file) for file in FILES})


def files_of(unit: str) -> list[Path]:
    return [file for file in FILES if unit_of(file) == unit]


@functools.cache
def imports_of(file: Path) -> tuple[str, ...]:
    return tuple(read_imports(file))


def read_imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            yield node.module or ""


def imported_units(file: Path) -> set[str]:
    parts = [name.split(".") for name in imports_of(file)]
    return {part[1] for part in parts if part[0] == "specproxy" and len(part) > 1}


def test_every_unit_has_its_rank() -> None:
    units = {unit_of(file) for file in FILES} - {"__init__", "__main__"}
    assert units <= set(RANKS)


@pytest.mark.parametrize("unit", UNITS)
def test_imports_point_downwards(unit: str) -> None:
    for file in files_of(unit):
        units = imported_units(file)
        if unit == "__init__":
            assert not units
        else:
            upwards = {one for one in units - {unit} if RANKS[one] >= RANKS[unit]}
            assert not upwards, file


@pytest.mark.parametrize("unit", UNITS)
def test_foreign_libraries_have_their_places(unit: str) -> None:
    for file in files_of(unit):
        names = {name.split(".")[0] for name in imports_of(file)}
        if unit != "llama":
            assert "llama_cpp" not in names, file
        if unit in ("core", "errors"):
            assert names <= {*sys.stdlib_module_names, "numpy", "specproxy"}, file
        if unit == "core":
            assert not names & {"time", "socket", "threading", "subprocess", "random"}, file
        if unit not in ("testing", "simulation"):
            assert "testing" not in imported_units(file), file


def test_draft_and_target_do_not_know_each_other() -> None:
    for file in FILES:
        if unit_of(file) in ("draft", "target"):
            assert not imported_units(file) & ({"draft", "target"} - {unit_of(file)})
