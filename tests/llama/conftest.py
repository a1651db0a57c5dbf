"""The shipped draft model, loaded once for all tests of the bindings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specproxy.llama.model import Model
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.models import DemoModels


@pytest.fixture(scope="session")
def draft_model_path(demo_models: DemoModels) -> Path:
    return demo_models.draft


@pytest.fixture(scope="session")
def model(draft_model_path: Path) -> Iterator[Model]:
    loaded = Model(draft_model_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def vocabulary(model: Model) -> ModelVocabulary:
    return ModelVocabulary(model)
