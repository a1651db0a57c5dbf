"""Pictures of the page for the docs: `python -m specproxy.testing.screenshots [--demo]`.

Without `--demo` a scripted target answers, so that the same pictures come out anywhere; with it
the demo's real pool does, over an emulated link.
"""

import argparse
import asyncio
import io
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from PIL import Image
from rich.console import Console

from specproxy.core.drafted import DraftToken
from specproxy.core.tasks import spawn, stop
from specproxy.pool.binaries import find_binaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import find_models
from specproxy.serve import loaded, proxy
from specproxy.settings import DraftSettings, load
from specproxy.testing.browser import Browser, Page
from specproxy.testing.drafter import ScriptedDrafter
from specproxy.testing.language import Language
from specproxy.testing.polling import until
from specproxy.testing.rig import PATHS, proxied
from specproxy.testing.vocabulary import WORDS, ToyVocabulary

RUN_S = 45.0
"""How long answers run before the pictures are taken, so that there is something to see."""
RTT_MS = 80.0
NUM_COLOURS = 256
DRAWN_S = 0.7
"""After so long the page has drawn newer figures."""
ENOUGH_SAID = "document.querySelector('.said')?.innerText.length > 220"
_MIN_WORD = 3


@dataclass(frozen=True, slots=True)
class Picture:
    """One file: how large the page is, and in which colours.

    Attributes:
        height: None: all of it.
    """

    name: str
    width: int
    dark: bool
    height: int | None = None
    scale: float = 1.0


PICTURES = (
    Picture("page-light.png", 1240, dark=False),
    Picture("page-dark.png", 1240, dark=True),
    Picture("page-phone.png", 390, dark=True, height=1180, scale=1.5),
)
PROMPTS = (
    "Why do lighthouses stand on rocks, and who kept their lamps?",
    "How does a river find its way to the sea?",
    "Explain why speculative decoding does not change an answer.",
)
MORE_PROMPTS = (
    "Describe a walk through a market on a cold morning.",
    "Write a short letter that thanks a neighbour for a ladder.",
    "What should one know before keeping bees?",
    "Explain to a child why the moon changes its shape.",
    "How did people tell the time before there were clocks?",
    "Which vegetables grow well in the shade, and why?",
)
"""For a real target; none is asked twice, for its pool would know the answer."""
ANSWERS = (
    "Lighthouses stand where ships would otherwise be lost: on reefs, on capes and on rocks that"
    " the tide covers twice a day. A keeper lived beside the lamp, often with a family, and it was"
    " his work to trim the wick, to wind the clockwork that turned the lens, and to clean the salt"
    " from the glass. In fog he rang a bell or fired a gun. Most lamps are electric now, and nobody"
    " sleeps in the tower any more, but the lenses are still turned through the night, and sailors"
    " still look for the one white flash that tells them where they are.",
    "A river begins wherever water gathers faster than the ground can drink it. It takes the"
    " steepest way that it finds, carries the soil with it, and so makes that way a little deeper"
    " with every flood. Where the land is hard it falls; where the land is soft it wanders, eats"
    " the outer bank of every bend and leaves sand on the inner one. Over many thousand years the"
    " bends move downstream like a slow snake. At the coast the current loses its strength, drops"
    " what it has carried, and builds the delta on which people then put their towns.",
    "The small model only guesses. Each guess is shown to the large model, which reads all of them"
    " in one pass and says for every place what it would have written itself. As long as the two"
    " agree, the words stand, since they are the words of the large model; at the first place where"
    " they differ, its own word is taken and the rest of the guess is thrown away. So a wrong guess"
    " costs a little time, and never a word. What is saved are passes: one for several words,"
    " instead of one for each, and on a slow link a pass is what takes long.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make all of `PICTURES`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", action="store_true", help="the demo's real pool answers")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder (default: docs)")
    parser.add_argument("--seconds", type=float, default=RUN_S, help="of answers before")
    options = parser.parse_args(arguments)
    asyncio.run(_make(options.out, options.seconds, demo=options.demo))


async def _make(folder: Path, run_s: float, *, demo: bool) -> None:
    async with AsyncExitStack() as stack:
        busy = demo_proxy() if demo else scripted_proxy()
        url = await stack.enter_async_context(busy)
        browser = await stack.enter_async_context(Browser())
        page = await browser.open(f"{url}/specproxy/")
        await asyncio.sleep(run_s)
        for picture in PICTURES:
            _keep(await take(page, picture), folder / picture.name)
            print(folder / picture.name)


def _keep(png: bytes, path: Path) -> None:
    """Write a picture with as few colours as it needs: the files are small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(
            NUM_COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
        ).save(path, optimize=True)


async def take(page: Page, picture: Picture) -> bytes:
    """One picture, while an answer runs."""
    await page.show(width=picture.width, height=900, dark=picture.dark, scale=picture.scale)
    await page.until(ENOUGH_SAID, timeout_s=120.0)
    for _ in range(2):  # what is drawn at this size may have another height
        height = picture.height or await page.height()
        await page.show(width=picture.width, height=height, dark=picture.dark, scale=picture.scale)
        await asyncio.sleep(DRAWN_S)
    return await page.picture()


@asynccontextmanager
async def scripted_proxy() -> AsyncIterator[str]:
    """The proxy's address; a scripted target answers again and again."""
    language = written_language()
    drafter = ScriptedDrafter(language, torn, delay_s=0.008)
    async with (
        proxied(
            language,
            drafter=drafter,
            probed=True,
            num_slots=4,
            pass_ms=210.0,
            model="scripted-target",
        ) as rig,
        asking(rig.server.url, len(PROMPTS) - 1, PROMPTS),
    ):
        yield rig.server.url


@asynccontextmanager
async def demo_proxy() -> AsyncIterator[str]:
    """The proxy's address; the demo's real pool answers, over an emulated link."""
    console = Console(stderr=True)
    models = find_models()
    assert models is not None, "run `make setup` first"
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            DemoPool(find_binaries(), models, PoolOptions(rtt_ms=RTT_MS))
        )
        draft = DraftSettings(model=models.draft)
        drafter = await stack.enter_async_context(loaded(draft, console))
        settings = load(None, target={"url": pool.url}, listen={"port": 0})
        server = await stack.enter_async_context(proxy(settings, drafter))
        await until(server.route.ready.is_set, timeout_s=180.0)
        await stack.enter_async_context(asking(server.url, 1, (*PROMPTS, *MORE_PROMPTS)))
        yield server.url


@asynccontextmanager
async def asking(url: str, num_clients: int, prompts: Sequence[str]) -> AsyncIterator[None]:
    """Clients that chat with `url`, each one question after the other."""
    async with aiohttp.ClientSession() as session:
        tasks = [
            spawn(_ask(session, url, prompts, number), name=f"client {number}")
            for number in range(num_clients)
        ]
        try:
            yield
        finally:
            for task in tasks:
                await stop(task)


async def _ask(
    session: aiohttp.ClientSession, url: str, prompts: Sequence[str], number: int
) -> None:
    await asyncio.sleep(4.0 * number)
    for turn in range(number, 10_000):
        prompt = prompts[turn % len(prompts)]
        kind = "completions" if turn % 4 == 3 else "chat"
        body: dict[str, Any] = {"max_tokens": 160, "temperature": 0, "stream": True}
        if kind == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        async with session.post(url + PATHS[kind], json=body) as response:
            async for _ in response.content.iter_any():
                pass


def written_language() -> Language:
    """A language that answers `PROMPTS` with `ANSWERS`, word by word."""
    words = {word for text in ANSWERS for word in _words(text)}
    vocabulary = ToyVocabulary("scripted-draft", words=(*WORDS, *sorted(words - set(WORDS))))
    language = Language(vocabulary, mean_length=0)
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        language = language.with_script(prompt, answer, chat=True)
        language = language.with_script(prompt, f" {answer}")
    return language


def _words(text: str) -> list[str]:
    """Pieces of a text as a tokenizer might cut them."""
    pieces = []
    for index, word in enumerate(text.split(" ")):
        piece = word if index == 0 else f" {word}"
        stem = piece.rstrip(".,:;")
        pieces += [stem, *piece[len(stem) :]]
    return [piece for piece in pieces if len(piece) >= _MIN_WORD]


def torn(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """A draft that is right most of the time, and where it is not its second choice often is."""
    context = list(tokens)
    drafted: list[DraftToken] = []
    for _ in range(num_tokens):
        right = language.best(context)
        wrong = language.vocabulary.tokenize(" the")[0]
        chance = random.Random(hash((len(context), right))).random()
        if chance < 0.06:
            token = DraftToken(wrong, 0.42, ((right, 0.38), (wrong + 1, 0.1)))
        elif chance < 0.1:
            token = DraftToken(wrong, 0.6, ((wrong + 1, 0.3),))
        else:
            token = DraftToken(right, 0.95, ((wrong, 0.02),))
        drafted.append(token)
        context.append(token.token)
        if language.vocabulary.is_end(token.token):
            break
    return drafted


if __name__ == "__main__":
    main()
