"""Another draft for a demo benchmark: by name, or by path."""

from pathlib import Path

import pytest
from rich.console import Console

from specproxy.bench.drafts import check_draft, with_draft
from specproxy.bench.options import BenchCommand
from specproxy.bench.pools import DemoParts
from specproxy.errors import ConfigError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels

CONSOLE = Console(quiet=True)
MODELS = DemoModels(Path("target.gguf"), Path("draft.gguf"))
PARTS = DemoParts(LlamaBinaries(Path("server"), Path("worker"), None), MODELS)


def test_nothing_said_is_the_demos_own() -> None:
    assert with_draft(PARTS, None, CONSOLE) is PARTS


@pytest.mark.parametrize("name", ["dear", "target"])
def test_a_dear_draft_is_the_target_itself(name: str) -> None:
    found = with_draft(PARTS, name, CONSOLE)
    assert found.models == DemoModels(MODELS.target, MODELS.target)
    assert found.binaries == PARTS.binaries


def test_a_path_must_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    for refuse in (
        lambda: check_draft(str(path)),
        lambda: with_draft(PARTS, str(path), CONSOLE),
        BenchCommand(draft=str(path)).check,
    ):
        with pytest.raises(ConfigError, match=r"small\.gguf does not exist"):
            refuse()
    path.touch()
    BenchCommand(draft=str(path)).check()
    assert with_draft(PARTS, str(path), CONSOLE).models.draft == path


def test_a_random_draft_that_is_there_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "specproxy" / "models" / "SmolLM2-135M-random.Q4_1.gguf"
    path.parent.mkdir(parents=True)
    path.touch()
    assert with_draft(PARTS, "random", CONSOLE).models.draft == path
