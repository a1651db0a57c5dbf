"""A headless Chromium, driven over its DevTools protocol: for tests of pages, and for pictures.

    async with Browser() as browser:
        page = await browser.open(url)
        await page.until("document.title === 'specproxy'")
        await page.show(width=390, height=844, dark=True)
        path.write_bytes(await page.picture())

Invariant: nothing of it is left when the context ends, its profile folder included.
"""

import asyncio
import base64
import itertools
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import aiohttp

from specproxy.core.tasks import spawn, stop
from specproxy.errors import SetupError
from specproxy.pool.processes import ChildProcess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_S = 60.0
ANSWER_S = 30.0
_POLL_S = 0.05


def find_browser() -> str | None:
    """Chromium's path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One Chromium with a fresh profile."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def __aenter__(self) -> Self:
        """
        Raises:
            SetupError: there is no Chromium.
            PoolError: it does not start.
        """
        path = find_browser()
        if path is None:
            raise SetupError("There is no Chromium.", remedy="apt-get install chromium")
        try:
            profile = Path(
                self._stack.enter_context(
                    TemporaryDirectory(prefix="specproxy-browser-", ignore_cleanup_errors=True)
                )
            )
            process = await ChildProcess.start(
                "chromium", [path, *_flags(profile)], profile / "log.txt"
            )
            self._stack.push_async_callback(process.aclose)
            address = profile / "DevToolsActivePort"

            async def listens() -> bool:
                return address.exists() and len(address.read_text().splitlines()) == 2

            await process.wait_until(listens, timeout_s=START_S)
            port, where = address.read_text().splitlines()
            client = await self._stack.enter_async_context(aiohttp.ClientSession())
            self._socket = await client.ws_connect(
                f"http://127.0.0.1:{port}{where}", max_msg_size=0
            )
            self._stack.push_async_callback(self._socket.close)
            reading = spawn(self._read(self._socket), name="browser")
            self._stack.push_async_callback(stop, reading)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def open(self, url: str, *, width: int = 1280, height: int = 900) -> "Page":
        """A new page at `url`, without waiting for it."""
        made = await self.call("Target.createTarget", {"url": "about:blank"})
        attached = await self.call(
            "Target.attachToTarget", {"targetId": made["targetId"], "flatten": True}
        )
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.show(width=width, height=height)
        await page.call("Page.navigate", {"url": url})
        return page

    async def call(
        self, method: str, params: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """One command of the protocol.

        Raises:
            RuntimeError: it was refused.
        """
        assert self._socket is not None
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        await self._socket.send_json(message)
        async with asyncio.timeout(ANSWER_S):
            body = await answer
        if "error" in body:
            raise RuntimeError(f"{method}: {body['error']}")
        result: dict[str, Any] = body.get("result", {})
        return result

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for frame in socket:
            body = frame.json()
            if "id" in body:
                answer = self._answers.pop(body["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(body)
            elif body.get("sessionId") in self._pages:
                self._pages[body["sessionId"]].hear(body["method"], body["params"])


class Page:
    """One page.

    Attributes:
        complaints: errors that its scripts threw or its console got, policy violations included.
        urls: what it has asked for.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self.complaints: list[str] = []
        self.urls: list[str] = []
        self._browser = browser
        self._session = session

    async def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """One command for this page."""
        return await self._browser.call(method, params, self._session)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """An event of the protocol."""
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.urls.append(params["request"]["url"])

    async def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are awaited.

        Raises:
            RuntimeError: it threw.
        """
        result = await self.call(
            "Runtime.evaluate",
            {"expression": script, "returnByValue": True, "awaitPromise": True},
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def until(self, script: str, *, timeout_s: float = 20.0) -> None:
        """Wait until the expression holds.

        Raises:
            TimeoutError: it did not in time.
        """
        async with asyncio.timeout(timeout_s):
            while not await self.evaluate(script):  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(_POLL_S)

    async def text(self, selector: str) -> str:
        """What one sees of an element."""
        return str(await self.evaluate(f"document.querySelector({selector!r}).innerText"))

    async def show(
        self, *, width: int, height: int, dark: bool = False, scale: float = 1.0
    ) -> None:
        """Show it at this size, in this scheme of colours."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale}
        await self.call("Emulation.setDeviceMetricsOverride", {**metrics, "mobile": width < 500})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", {"features": [scheme]})

    async def picture(self) -> bytes:
        """A PNG of what fits the window."""
        shot = await self.call("Page.captureScreenshot", {"format": "png"})
        return base64.b64decode(shot["data"])

    async def height(self) -> int:
        """How high all of it is, in CSS pixels."""
        return int(await self.evaluate("document.documentElement.scrollHeight"))


def _flags(profile: Path) -> list[str]:
    flags = [
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--disable-gpu",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "about:blank",
    ]
    return ["--no-sandbox", *flags] if os.geteuid() == 0 else flags  # (root has no sandbox)
