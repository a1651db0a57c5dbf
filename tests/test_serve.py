"""What `specproxy serve` loads."""

from pathlib import Path

import pytest
from rich.console import Console

from specproxy.pool.models import DemoModels
from specproxy.serve import all_loaded
from specproxy.settings import load


@pytest.mark.real
async def test_a_draft_model_of_several_routes_is_loaded_once(
    demo_models: DemoModels, tmp_path: Path
) -> None:
    link = tmp_path / "the-same.gguf"
    link.symlink_to(demo_models.draft)
    settings = load(
        None,
        draft={"model": demo_models.draft, "context_tokens": 512},
        routes={
            "one": {"target": {"url": "http://a:1"}},
            "other": {"target": {"url": "http://b:1"}, "draft": {"model": link}},
            "none": {"target": {"url": "http://c:1"}, "draft": None},
        },
    )
    async with all_loaded(settings, Console(quiet=True)) as drafters:
        assert set(drafters) == {"one", "other"}
        assert drafters["one"] is drafters["other"]
        assert drafters["one"].alive
    assert not drafters["one"].alive
