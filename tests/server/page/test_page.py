"""The page in a real browser, before a scripted target that answers."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from specproxy.core.tasks import spawn, stop
from specproxy.testing.browser import Browser, Page, find_browser
from specproxy.testing.drafter import ScriptedDrafter
from specproxy.testing.rig import Rig, proxied
from specproxy.testing.screenshots import ANSWERS, PROMPTS, torn, written_language

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="there is no Chromium"),
]
KEY = "page-key"
ASKED = {
    "messages": [{"role": "user", "content": PROMPTS[2]}],
    "max_tokens": 160,
    "temperature": 0,
    "stream": True,
}
DARK, LIGHT = "rgb(13, 17, 23)", "rgb(244, 245, 247)"
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with Browser() as running:
        yield running


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    language = written_language()
    drafter = ScriptedDrafter(language, torn, delay_s=0.004)
    settings = {"listen": {"api_key": KEY}}
    async with proxied(
        language, drafter=drafter, probed=True, settings=settings, pass_ms=60.0
    ) as running:
        yield running


async def unlock(page: Page, key: str = KEY) -> None:
    """Give the page a key, as a user does."""
    await page.until("document.querySelector('#ask')?.open")
    await page.evaluate(f"document.querySelector('#key').value = {key!r}")
    await page.evaluate("document.querySelector('#key-form').requestSubmit()")


async def test_it_asks_for_the_key_and_shows_what_runs(browser: Browser, rig: Rig) -> None:
    page = await browser.open(f"{rig.server.url}/specproxy/")
    await page.until("document.querySelector('#ask')?.open")
    assert await page.evaluate("document.querySelector('#main').hidden")
    await unlock(page, "another")
    await page.until("!document.querySelector('#key-wrong').hidden")
    await unlock(page)
    await page.until("!document.querySelector('#main').hidden")
    assert await page.text("#link") == "live"
    assert await page.text("#answers") == "Nothing is being answered right now."

    headers = {"Authorization": f"Bearer {KEY}"}
    asking = spawn(rig.ask("chat", ASKED, headers=headers), name="ask")
    await page.until("document.querySelector('.said')?.innerText.length > 60")
    said = await page.evaluate("document.querySelector('.said').textContent")
    assert ANSWERS[2].startswith(said)
    assert PROMPTS[2] in await page.text(".asked")
    kinds = "[...document.querySelectorAll('.said span')].map((span) => span.className)"
    assert "line" in await page.evaluate(kinds)
    assert (await asking).text == ANSWERS[2]

    await page.until("document.querySelector('#answers').innerText.startsWith('Nothing')")
    await page.until("document.querySelector('#factor').innerText.endsWith('\u00d7')")
    await page.until("document.querySelectorAll('#chart-positions .column').length > 3")
    await page.until("document.querySelector('#kinds').innerText.includes('chat')")
    assert "toy-model" in await page.text("#health")
    assert "n_match 4" in await page.text("#decisions")
    mine = urlsplit(rig.server.url).netloc
    assert {urlsplit(url).netloc for url in page.urls} == {mine}
    assert not any(KEY in url for url in page.urls)
    assert [text for text in page.complaints if "401" not in text] == []


async def test_the_key_stays_in_its_tab(browser: Browser, rig: Rig) -> None:
    page = await browser.open(f"{rig.server.url}/specproxy/")
    await unlock(page)
    await page.until("!document.querySelector('#main').hidden")
    await page.call("Page.reload")
    await page.until("document.querySelector('#main')?.hidden === false")
    stored = "JSON.stringify(localStorage) + document.cookie"
    assert KEY not in await page.evaluate(stored)
    other = await browser.open(f"{rig.server.url}/specproxy/")
    await other.until("document.querySelector('#ask')?.open")


async def test_dark_light_and_a_phone(browser: Browser, rig: Rig) -> None:
    page = await browser.open(f"{rig.server.url}/specproxy/")
    await unlock(page)
    await page.until("!document.querySelector('#main').hidden")
    for width in (320, 390, 820, 1240):
        for dark in (True, False):
            await page.show(width=width, height=800, dark=dark)
            assert await page.evaluate(GROUND) == (DARK if dark else LIGHT)
            assert await page.evaluate("document.documentElement.scrollWidth") == width
    for wanted in (LIGHT, DARK):  # chosen on the page, against the system's light
        await page.evaluate("document.querySelector('#theme').click()")
        assert await page.evaluate(GROUND) == wanted
    assert await page.picture()


async def test_it_comes_back_with_the_proxy(browser: Browser, rig: Rig) -> None:
    page = await browser.open(f"{rig.server.url}/specproxy/")
    await unlock(page)
    await page.until("document.querySelector('#link').innerText === 'live'")
    stopping = spawn(rig.server.__aexit__(), name="stop")
    await page.until("document.querySelector('#link').innerText === 'connecting'")
    await stop(stopping)
