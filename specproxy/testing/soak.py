"""Many mixed requests through one proxy: does anything stay behind?

    python -m specproxy.testing.soak --requests 20000

Good answers, refusals, clients that leave at any time, targets that reset or fall silent, all
with prompts of their own, before scripted parts in this process. Printed are memory,
descriptors, tasks and half-closed sockets, after a warm-up and at the end, at rest. What went
wrong though its own request met no fault is *spoilt*: exit code 1.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from specproxy import logs
from specproxy.core.tasks import spawn, stop
from specproxy.settings import LogSettings
from specproxy.testing import drafter
from specproxy.testing.faults import Break, Faults, StreamFault
from specproxy.testing.language import Language
from specproxy.testing.rig import PATHS, Rig, proxied

NUM_CLIENTS = 24
WARM_UP = 0.2
"""Share of the requests before memory is first looked at."""
CLOSE_WAIT = "08"
SPOILT = "spoilt: "


@dataclass(frozen=True)
class Footprint:
    """What the process holds."""

    memory_mib: float
    num_descriptors: int
    num_tasks: int
    num_half_closed: int

    def __str__(self) -> str:
        return (
            f"memory {self.memory_mib:.1f} MiB, descriptors {self.num_descriptors},"
            f" tasks {self.num_tasks}, half-closed sockets {self.num_half_closed}"
        )


@dataclass(frozen=True)
class Soaked:
    """How it went."""

    before: Footprint
    after: Footprint
    outcomes: Counter[str]
    duration_s: float

    @property
    def num_spoilt(self) -> int:
        """Requests that suffered from what happened to others."""
        return sum(count for name, count in self.outcomes.items() if name.startswith(SPOILT))

    def __str__(self) -> str:
        told = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        lines = (
            f"requests: {self.outcomes.total()} in {self.duration_s:.0f} s ({told})",
            f"before:   {self.before}",
            f"after:    {self.after}",
        )
        return "\n".join(lines)


async def soak(num_requests: int, *, seed: int = 1) -> Soaked:
    """Send them, `NUM_CLIENTS` at a time."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    behaviour = drafter.noisy(0.2, random.Random(seed))
    settings = {"target": {"idle_s": 0.1, "first_byte_s": 2.0}}
    began_s = time.monotonic()
    async with proxied(Language(), behaviour, probed=True, settings=settings) as rig:
        num_first = int(num_requests * WARM_UP)
        await _send(rig, rng, num_first, outcomes)
        before = await _footprint(rig)
        await _send(rig, rng, num_requests - num_first, outcomes)
        after = await _footprint(rig)
    return Soaked(before, after, outcomes, time.monotonic() - began_s)


async def _send(rig: Rig, rng: random.Random, count: int, outcomes: Counter[str]) -> None:
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            outcomes[await _exchange(rig, rng)] += 1
            if number % 100 == 0:
                _forget(rig)

    async with asyncio.TaskGroup() as clients:
        for _ in range(NUM_CLIENTS):
            clients.create_task(client())


async def _exchange(rig: Rig, rng: random.Random) -> str:
    """One request of any kind; returns how it ended for the client."""
    kind = rng.choice(("chat", "completions", "native", "messages", "responses"))
    text = f"{rng.getrandbits(64):x} of the sea"
    body: dict[str, Any] = {"stream": rng.random() < 0.6, "temperature": 0}
    for limit in ("max_tokens", "max_output_tokens"):
        body[limit] = rng.randrange(1, 25)
    body |= {"messages": [{"role": "user", "content": text}], "prompt": text, "input": text}
    chance = rng.random()
    right: str | None = "good"
    if chance < 0.1:
        body |= {"temperature": "warm"}
        right = "status 400"
    elif chance < 0.2:
        body |= {"n": 2}
    elif chance < 0.3:
        fault = StreamFault(rng.choice(list(Break)), rng.randrange(6))
        marked = text.encode()
        rig.target.faults.one_by_one.append((marked, Faults(stream=fault)))
        right = None  # whatever becomes of it
    asked = spawn(_ask(rig.client, rig.server.url + PATHS[kind], body), name="client")
    if 0.3 <= chance < 0.5:
        await asyncio.sleep(rng.random() * 0.03)
        await stop(asked)
    else:
        await asyncio.wait([asked])
    if asked.cancelled():
        return "left"
    outcome = asked.result()
    return outcome if right in (None, outcome) else SPOILT + outcome


async def _ask(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> str:
    said, outcome = b"", "good"
    try:
        async with client.post(url, data=json.dumps(body)) as response:
            if response.status != 200:
                outcome = f"status {response.status}"
            async for chunk in response.content.iter_any():
                said += chunk
    except aiohttp.ClientError:
        outcome = "broken"
    told = b'"error":' in said and not outcome.startswith("status")
    return "error in a stream" if told else outcome


async def _footprint(rig: Rig) -> Footprint:
    await rig.rest()
    _forget(rig)
    await asyncio.sleep(0.3)  # closed sockets leave the loop
    gc.collect()
    page = os.sysconf("SC_PAGE_SIZE")
    memory = int(_lines("/proc/self/statm")[0].split()[1]) * page
    return Footprint(
        memory / 2**20,
        len(os.listdir("/proc/self/fd")),
        len(asyncio.all_tasks()),
        _num_half_closed(),
    )


def _forget(rig: Rig) -> None:
    """The scripted parts remember all that they were asked."""
    rig.target.requests.clear()
    del rig.target.passes[:]
    if rig.drafter is not None:
        rig.drafter.calls.clear()


def _num_half_closed() -> int:
    """Sockets of this process that the other side has closed and this one has not."""
    inodes = _socket_inodes()
    fields = [line.split() for line in _lines("/proc/self/net/tcp")[1:]]
    return sum(one[3] == CLOSE_WAIT and one[9] in inodes for one in fields)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="ascii").splitlines()


def _socket_inodes() -> set[str]:
    """Of the sockets of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:["):
                found.add(link[8:-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m specproxy.testing.soak")
    parser.add_argument("--requests", type=int, default=20_000)
    given = parser.parse_args()
    logs.configure(LogSettings(level="error"))
    soaked = asyncio.run(soak(given.requests))
    print(soaked)
    sys.exit(soaked.num_spoilt > 0)
