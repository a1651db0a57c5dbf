"""`specproxy inspect` on models of several families, whole and broken."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.pool.inspect import inspect_command
from specproxy.pool.models import DemoModels

Writer = Callable[..., Path]
POOLS = Path(__file__).parents[2] / "configs/pools"


def inspected(path: Path, **more: Any) -> tuple[int, str]:
    file = StringIO()
    code = inspect_command(path, Console(file=file, width=80), **more)
    return code, file.getvalue()


@pytest.mark.parametrize(
    ("architecture", "pre", "family"),
    [
        ("llama", "llama-bpe", "llama-bpe"),
        ("qwen2", "qwen2", "qwen2"),
        ("gemma2", "default", "default"),
        ("phi3", "phi-3", "phi-3"),
        ("gpt2", "gpt-2", "gpt-2"),
        ("falcon", "", "falcon"),
    ],
)
def test_families_by_their_tokenizers(
    written: Writer, architecture: str, pre: str, family: str
) -> None:
    path = written(architecture=architecture, metadata={"tokenizer.ggml.pre": pre}, tensors=False)
    code, text = inspected(path, as_json=True)
    data = json.loads(text)
    assert code == 0
    assert (data["architecture"], data["family"]) == (architecture, family)
    assert (data["num_layers"], data["context_length"], data["num_vocab"]) == (4, 2048, 32)
    assert data["kv_bytes_per_token"]["f16"] == 4 * 2 * 16 * 2
    assert "a vocabulary only" in inspected(path)[1]


def test_an_unfit_draft_is_named_and_makes_the_exit_code_1(written: Writer) -> None:
    target, other = written("t.gguf"), written("d.gguf", tokens=["x"] * 32)
    code, text = inspected(target, draft=other)
    assert code == 1
    assert "token 0 is 'x' in the draft and 'word0' in the target" in text
    assert inspected(target, draft=target)[0] == 0


def test_a_plan_takes_the_model_in_the_targets_place(written: Writer) -> None:
    code, text = inspected(written(), plan=POOLS / "nas.yaml")
    assert code == 0
    assert "study: layers 0-1" in text
    assert "CUDA0: no layers" in text
    assert "the output layer with it" in text
    _, text = inspected(written(), plan=POOLS / "nas.yaml", as_json=True)
    assert json.loads(text)["plan"]["tensor_split"] == [2, 3, 0]


def test_a_files_own_words_do_not_steer_the_terminal(written: Writer) -> None:
    _, text = inspected(written(metadata={"general.name": "\x1b[31mred\n\x07"}))
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.real
def test_the_demos_models(demo_models: DemoModels) -> None:
    code, text = inspected(demo_models.target, draft=demo_models.draft)
    assert code == 0
    for said in ("family smollm2", "134.52 M", "f16 22.5 KiB", "has the target's vocabulary"):
        assert said in text
