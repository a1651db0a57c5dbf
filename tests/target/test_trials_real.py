"""The trials before a real llama-server."""

from typing import Any

import pytest

from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.target.trials import try_chat, try_completion

pytestmark = pytest.mark.real


async def test_a_plain_template(server: Any) -> None:
    async with TargetClient(TargetSettings(url=server.url)) as client:
        settings = await try_completion(client)
        assert settings is not None
        assert (settings["n_predict"], settings["stop"]) == (-1, [])
        settings = await try_chat(client)
        assert settings is not None
        assert (settings["preserved_tokens"], settings["stop"]) == ([], [])


async def test_a_template_that_knows_thoughts(tool_server: Any) -> None:
    async with TargetClient(TargetSettings(url=tool_server.url)) as client:
        assert await try_completion(client) is not None
        assert await try_chat(client) is None
