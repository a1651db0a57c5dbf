"""Loading and freeing model files."""

from pathlib import Path

import pytest

from specproxy.errors import ConfigError, SpecproxyError
from specproxy.llama.context import Context
from specproxy.llama.model import Model
from specproxy.llama.vocabulary import ModelVocabulary


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.gguf does not exist"):
        Model(tmp_path / "nothing.gguf")


@pytest.mark.real
def test_a_broken_file_is_named_with_the_reason_and_a_remedy(
    tmp_path: Path, draft_model_path: Path
) -> None:
    cut_short = tmp_path / "short.gguf"
    with draft_model_path.open("rb") as whole:
        cut_short.write_bytes(whole.read(100_000))
    with pytest.raises(ConfigError) as caught:
        Model(cut_short)
    assert str(cut_short) in str(caught.value)
    assert "no reason" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.real
def test_a_model_is_freed_after_its_last_holder(draft_model_path: Path) -> None:
    model = Model(draft_model_path)
    context = Context(model, num_tokens=256)
    model.close()
    assert repr(model) == f"<Model {draft_model_path.name} closed>"
    with pytest.raises(SpecproxyError, match="closed"):
        Context(model, num_tokens=256)
    assert model._handle is not None  # the context still needs it
    context.close()
    context.close()
    assert model._handle is None
    model.close()


@pytest.mark.real
def test_a_vocabulary_needs_no_weights_and_outlives_the_model(draft_model_path: Path) -> None:
    model = Model(draft_model_path, vocab_only=True)
    vocabulary = ModelVocabulary(model)
    assert vocabulary.tokenize("a village")
    model.close()
    assert vocabulary.piece(vocabulary.token_of(b" village") or 0) == b" village"
    with pytest.raises(SpecproxyError, match="closed"):
        vocabulary.tokenize("a village")


@pytest.mark.real
def test_a_model_describes_itself(model: Model, draft_model_path: Path) -> None:
    assert model.num_layers == 30
    assert not model.is_recurrent
    assert 0.9 < model.num_bytes / draft_model_path.stat().st_size < 1
    assert "llama" in model.description
    assert model.metadata("general.architecture") == "llama"
    assert model.metadata("nothing.like.that") is None
    template = model.metadata("tokenizer.chat_template")
    assert template is not None
    assert len(template) > 256  # longer than the first guess of a buffer
    assert template.endswith(("}", "%}", "}}", "\n"))
