"""Two real targets behind one URL, both streaming; one is killed and comes back.

They are the same model in two quantisations, F16 and Q4_1, and share one draft.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge
from specproxy.bench.stats import Answer
from specproxy.bench.workloads import PROMPTS, Prompt
from specproxy.core.tasks import spawn
from specproxy.draft.engine import LlamaDrafter
from specproxy.errors import TargetError
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import ChildProcess, free_ports
from specproxy.route import Mode, Route
from specproxy.serve import proxy
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient
from specproxy.target.facts import read_facts
from specproxy.testing import until

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

START_S = 120.0
NUM_TOKENS, LONG_TOKENS = 40, 400
NUM_AT_ONCE = 2


class Server:
    """A llama-server on a port that stays, through lives that end."""

    def __init__(self, binaries: LlamaBinaries, model: Path, directory: Path) -> None:
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._log = directory / f"{model.stem}.log"
        self._child: ChildProcess | None = None
        self._command = [
            *(binaries.server, "-m", str(model), "--host", "127.0.0.1"),
            *("--port", str(self._port), "-t", "1", "-c", "4096", "-np", str(NUM_AT_ONCE + 1)),
            *("--kv-unified", "--cache-ram", "0", "-sps", "0", "--no-webui", "--fit", "off"),
            *("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "6"),
            *("--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", "12"),
        ]

    async def start(self) -> None:
        self._child = await ChildProcess.start("llama-server", self._command, self._log)
        async with TargetClient(TargetSettings(url=self.url)) as client:

            async def healthy() -> bool:
                try:
                    await read_facts(client)
                except TargetError:
                    return False
                return True

            await self._child.wait_until(healthy, timeout_s=START_S)

    async def kill(self) -> None:
        assert self._child is not None
        os.killpg(self._child.pid, signal.SIGKILL)
        await self._child.wait()

    async def aclose(self) -> None:
        if self._child is not None:
            await self._child.aclose()


@dataclass(frozen=True)
class Pair:
    """The running parts.

    Attributes:
        front: what a client talks to.
    """

    large: Server
    small: Server
    routes: dict[str, Route]
    front: TargetClient

    async def ask(
        self, name: str, prompt: Prompt, said: list[str], num_tokens: int = NUM_TOKENS
    ) -> Answer:
        """A stream from a route; its pieces go to `said` as they come. Long ones do not end by
        themselves."""
        fields = {"model": name, "ignore_eos": num_tokens == LONG_TOKENS}
        return await ask(
            self.front, prompt.messages, num_tokens, on_text=said.append, fields=fields
        )


@asynccontextmanager
async def pair(binaries: LlamaBinaries, models: DemoModels, directory: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        servers = [Server(binaries, model, directory) for model in (models.target, models.draft)]
        for server in servers:
            stack.push_async_callback(server.aclose)
            await server.start()
        drafter = await asyncio.to_thread(
            LlamaDrafter, models.draft, num_sequences=8, context_tokens=8192
        )
        stack.push_async_callback(drafter.aclose)
        large, small = servers
        settings = load(
            None,
            listen={"port": 0},
            draft={"model": str(models.draft)},
            seeding={"warm": "never"},
            routes={
                "large": {"target": {"url": large.url}},
                "small": {"target": {"url": small.url}},
            },
        )
        running = await stack.enter_async_context(proxy(settings, drafter))
        routes = {route.name: route for route in running.routes}
        for route in routes.values():
            route.poll_s = 0.2
            await until(route.ready.is_set, timeout_s=START_S)
            assert route.mode is Mode.SEEDING
        front = TargetClient(TargetSettings(url=running.url))
        yield Pair(large, small, routes, await stack.enter_async_context(front))


class Asking:
    """Streams from one route, one after another, until told."""

    def __init__(self, parts: Pair, name: str, prompts: list[Prompt]) -> None:
        self.answers: list[tuple[Prompt, Answer]] = []
        self.enough = asyncio.Event()
        self._parts = parts
        self._name = name
        self._prompts = prompts

    async def run(self) -> None:
        for prompt in cycle(self._prompts):
            if self.enough.is_set():
                return
            self.answers.append((prompt, await self._parts.ask(self._name, prompt, [])))


async def test_the_other_target_is_undisturbed_and_the_killed_one_comes_back(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path
) -> None:
    async with pair(binaries, demo_models, tmp_path) as parts:
        small, large = parts.routes["small"], parts.routes["large"]
        prompts = list(PROMPTS)
        asking = [Asking(parts, "large", prompts[lane::4]) for lane in range(NUM_AT_ONCE)]
        undisturbed = [spawn(one.run(), name="undisturbed") for one in asking]
        said: list[list[str]] = [[], []]
        lost = [
            spawn(parts.ask("small", prompt, pieces, LONG_TOKENS), name="lost")
            for prompt, pieces in zip(prompts[2::4], said, strict=False)
        ]
        await until(lambda: all(len(pieces) >= 4 for pieces in said), timeout_s=START_S)

        await parts.small.kill()
        for answer in lost:
            with pytest.raises(TargetError):
                await answer
        num_then = [len(one.answers) for one in asking]
        await until(lambda: small.mode is Mode.STARTING, timeout_s=START_S)
        with pytest.raises(TargetError, match="503"):
            await parts.ask("small", prompts[3], [])
        await parts.small.start()
        await until(small.ready.is_set, timeout_s=START_S)
        assert small.mode is Mode.SEEDING

        for one, num in zip(asking, num_then, strict=True):
            await until(lambda one=one, num=num: len(one.answers) >= num + 1, timeout_s=START_S)
            one.enough.set()
        await asyncio.gather(*undisturbed)
        assert not any(decision.mode != "seeding" for decision in large.observed.decisions)
        again = prompts[3]
        back = [(again, await parts.ask("small", again, []))]

        assert large.counts.num_seeded > 0
        assert large.counts.num_accepted > 0
        for server, answers in (
            (parts.large, [pair for one in asking for pair in one.answers]),
            (parts.small, back),
        ):
            async with TargetClient(TargetSettings(url=server.url)) as direct:
                judge = Judge(direct, stepwise=True)
                for prompt, answer in answers:
                    reference = await ask(direct, prompt.messages, NUM_TOKENS)
                    verdict = await judge.judge(
                        prompt.messages, NUM_TOKENS, reference=reference, answer=answer
                    )
                    assert verdict.identical, verdict
