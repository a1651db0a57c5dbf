"""The same requests to a target directly and through the proxy: what differs?

    python -m specproxy.testing.differential            # two scripted targets of one language
    python -m specproxy.testing.differential --real     # the demo's pool, draft and models

Compared are status, content type, the headers of `HEADERS`, and bodies or events without ids,
times and what the cache held. On a real model a near-tie may fall either way with the shape of
a batch; so an answer that differs counts as equal only if the target alone gives it, too, when
it is asked again.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from specproxy import logs
from specproxy.draft.engine import LlamaDrafter
from specproxy.errors import SetupError
from specproxy.pool.binaries import find_binaries
from specproxy.pool.demo import DemoPool, PoolOptions
from specproxy.pool.models import find_models
from specproxy.server.app import Server
from specproxy.settings import LogSettings, load
from specproxy.testing import drafter
from specproxy.testing.catalogue import exchanges
from specproxy.testing.exchange import Exchange
from specproxy.testing.language import Language
from specproxy.testing.polling import until
from specproxy.testing.rig import Answer, proxied, send
from specproxy.testing.toy_catalogue import toy_exchanges

HEADERS = ("content-type", "content-encoding", "retry-after", "www-authenticate", "allow", "etag")
NUM_ASKED_AGAIN = 3
READY_S = 120.0
CALLS = (
    '<tool_call>{"name": "weather", "arguments": {"city": "Pan", "on": {"x": 1}}}</tool_call>\n'
    '<tool_call>{"name": "clock", "arguments": {}}</tool_call>'
)

Send = Callable[[Exchange], Awaitable[Answer]]


@dataclass
class Tally:
    """What became of the requests.

    Attributes:
        again: equal to what the target alone said when it was asked again.
        sped_up: the proxy speculated for.
        differing: what differs, a line each.
    """

    num_equal: int = 0
    num_again: int = 0
    num_sped_up: int = 0
    differing: list[str] = field(default_factory=list)

    @property
    def num_tried(self) -> int:
        return self.num_equal + len(self.differing)

    def __str__(self) -> str:
        again = f" ({self.num_again} when asked again)" if self.num_again else ""
        lines = [
            f"requests tried: {self.num_tried}",
            f"sped up:        {self.num_sped_up}",
            f"equal:          {self.num_equal}{again}",
            f"differing:      {len(self.differing)}",
        ]
        return "\n".join([*self.differing, *lines])


@dataclass(frozen=True)
class Pair:
    """The two ways to ask.

    Attributes:
        exact: the model rounds nothing, so no answer may be told by asking again.
    """

    proxied: Send
    alone: Send
    exact: bool


async def compare(pair: Pair, asked: Iterable[Exchange]) -> Tally:
    """Ask both."""
    tally = Tally()
    for exchange in asked:
        got, right = await pair.proxied(exchange), await pair.alone(exchange)
        tally.num_sped_up += got.headers.get("x-specproxy-mode") == "seeding"
        difference = differs(got, right)
        for _ in range(0 if pair.exact or difference is None else NUM_ASKED_AGAIN):
            if differs(got, await pair.alone(exchange)) is None:
                tally.num_again += 1
                difference = None
                break
        if difference is None:
            tally.num_equal += 1
        else:
            tally.differing.append(f"{exchange}\n    {difference}")
    return tally


def differs(got: Answer, right: Answer) -> str | None:
    """In what; None if in nothing that counts."""
    for name in HEADERS:
        if got.headers.get(name) != right.headers.get(name):
            return f"{name}: {got.headers.get(name)} is not {right.headers.get(name)}"
    if _by_choice(got) != _by_choice(right):
        return f"{got.status} {got.raw[-300:]!r}\n    is not {right.status} {right.raw[-300:]!r}"
    return None


def _by_choice(answer: Answer) -> Answer:
    """The answer with the events of each choice together: how they mix is a matter of time."""
    if answer.content_type != "text/event-stream":
        return answer
    return replace(answer, content=sorted(answer.content, key=_choice))


def _choice(event: Any) -> int:
    """The choice that an event belongs to; what belongs to none comes last."""
    if event is None:
        return -1
    if not isinstance(event, dict):
        return sys.maxsize
    choices = event.get("choices")
    if isinstance(choices, list):
        return int(choices[0].get("index", 0)) if choices else sys.maxsize
    return int(event.get("index", 0)) if "stop" in event else 0


@asynccontextmanager
async def scripted_pair(behaviour: drafter.Behaviour = drafter.perfect) -> AsyncIterator[Pair]:
    """The proxy before a scripted target, and another target of the same language."""
    language = Language(thinks=True).with_script("call", CALLS, chat=True)
    async with proxied(language, behaviour, probed=True, pass_ms=0.2) as rig:

        async def through(exchange: Exchange) -> Answer:
            return await rig.send(exchange.method, exchange.path, **exchange.sent)

        async def alone(exchange: Exchange) -> Answer:
            return await send(rig.client, await rig.oracle.url(), exchange)

        yield Pair(through, alone, exact=True)


@asynccontextmanager
async def real_pair() -> AsyncIterator[Pair]:
    """The proxy before the demo's pool, and the pool itself.

    Raises:
        SetupError: there are no binaries or models.
    """
    models = find_models()
    if models is None:
        raise SetupError("The demo's models are missing.", remedy="Run `make setup`.")
    async with DemoPool(find_binaries(), models, PoolOptions(rtt_ms=0.0)) as pool:
        made = LlamaDrafter(models.draft, num_sequences=4, context_tokens=4096)
        try:
            settings = load(None, target={"url": pool.url}, listen={"port": 0})
            # llama-server closes connections that a client would use again
            fresh = aiohttp.TCPConnector(force_close=True)
            async with (
                Server(settings, made) as server,
                aiohttp.ClientSession(connector=fresh) as client,
            ):
                await until(server.route.ready.is_set, timeout_s=READY_S)

                async def through(exchange: Exchange) -> Answer:
                    return await send(client, server.url, exchange)

                async def alone(exchange: Exchange) -> Answer:
                    return await send(client, pool.url, exchange)

                yield Pair(through, alone, exact=False)
        finally:
            await made.aclose()


async def main(*, real: bool, every: int) -> int:
    """The command: print the tally; 1 if anything differs."""
    if real:
        async with real_pair() as pair:
            tally = await compare(pair, [*exchanges()][::every])
    else:
        async with scripted_pair() as pair:
            tally = await compare(pair, [*exchanges(), *toy_exchanges()][::every])
    print(tally)
    return 1 if tally.differing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m specproxy.testing.differential")
    parser.add_argument("--real", action="store_true", help="on the demo's pool and models")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth request")
    given = parser.parse_args()
    logs.configure(LogSettings(level="error"))
    sys.exit(asyncio.run(main(real=given.real, every=given.every)))
