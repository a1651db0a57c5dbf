"""What `specproxy serve` loads, starts and says."""

import asyncio
import contextlib
from io import StringIO
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from specproxy.errors import TargetError
from specproxy.pool.models import DemoModels
from specproxy.serve import all_loaded, announce, coordinated
from specproxy.settings import load
from specproxy.target.client import TargetClient


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


@pytest.mark.real
async def test_its_coordinator_lets_nobody_else_in(
    demo_models: DemoModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "clients-key")
    section = {"model": demo_models.target, "context_tokens": 512, "warm": "never"}
    async with (
        coordinated(load(None, coordinator=section)) as settings,
        TargetClient(settings.target) as ours,
        aiohttp.ClientSession() as strangers,
    ):
        while True:  # it loads its model first
            with contextlib.suppress(TargetError):
                assert (await ours.json("GET", "/props"))["total_slots"]
                break
            await asyncio.sleep(0.05)
        for key in ("", "clients-key"):
            headers = {"Authorization": f"Bearer {key}", "Origin": "https://example.org"}
            async with strangers.get(f"{settings.target.url}/props", headers=headers) as refused:
                assert refused.status == 401


def test_an_address_in_brackets_is_shown() -> None:
    file = StringIO()
    announce("http://[fd7a:115c:a1e0::1]:8088", ["large", "small"], Console(file=file, width=40))
    first, second, third = file.getvalue().splitlines()
    assert first == "specproxy listens on http://[fd7a:115c:a1e0::1]:8088"
    assert "http://[fd7a:115c:a1e0::1]:8088/v1 " in second
    assert third == "Models: large, small"
