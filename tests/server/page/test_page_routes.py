"""The page in a real browser, before two scripted targets."""

import pytest

from specproxy.testing.browser import Browser, find_browser
from specproxy.testing.routed import routed
from tests.server.page.test_page import unlock

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="there is no Chromium"),
]
SHOWN = "document.querySelector('#routes [aria-current]').textContent"
HEALTH = "document.querySelector('#health').innerText"


async def test_each_route_can_be_looked_at() -> None:
    async with routed({"large": {}, "small": {}}) as rig, Browser() as browser:
        page = await browser.open(f"{rig.server.url}/specproxy/")
        await page.until("document.querySelectorAll('#routes button').length === 2")
        assert await page.evaluate(SHOWN) == "large"
        assert "large-model" in await page.evaluate(HEALTH)
        await page.evaluate("window.kept = document.querySelectorAll('#routes button')[1]")
        await page.evaluate("window.kept.click()")
        assert await page.evaluate(SHOWN) == "small"
        assert "small-model" in await page.evaluate(HEALTH)
        await rig.targets["small"].down()
        await page.until(f"{HEALTH}.includes('away')")
        assert await page.evaluate("window.kept.isConnected")  # or clicks would be lost
        assert await page.evaluate(SHOWN) == "small"


async def test_the_key_of_a_route_does_not_open_it() -> None:
    routes = {"large": {"keys": ["large-key"]}, "small": {}}
    owner = {"listen": {"api_key": "owner"}}
    async with routed(routes, settings=owner) as rig, Browser() as browser:
        page = await browser.open(f"{rig.server.url}/specproxy/")
        await unlock(page, "large-key")
        await page.until("!document.querySelector('#key-wrong').hidden")
        await unlock(page, "owner")
        await page.until("!document.querySelector('#main').hidden")
