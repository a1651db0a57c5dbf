"""Answers made by hand, and arms over scripted targets."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.judge import Verdict
from specproxy.bench.kinds import ProxyKind
from specproxy.bench.report import Report
from specproxy.bench.runner import ArmResult, BenchOptions
from specproxy.bench.stats import Answer
from specproxy.bench.warm import WarmUp
from specproxy.bench.workloads import PROMPTS
from specproxy.core.tally import Tally
from specproxy.draft.protocol import Drafter
from specproxy.progress import Step
from specproxy.serve import proxy, speculating
from specproxy.settings import TargetSettings, load
from specproxy.target.client import TargetClient
from specproxy.testing import Language, ScriptedDrafter, ScriptedTarget


def _make_answer(**given: Any) -> Answer:
    fields: dict[str, Any] = {
        "text": "Hello",
        "finish_reason": "length",
        "num_tokens": 10,
        "num_prompt": 5,
        "num_prompt_read": 5,
        "num_proposed": 0,
        "num_accepted": 0,
        "ttft_s": 0.1,
        "total_s": 1.1,
        "server_s": 1.0,
    }
    return Answer(**{**fields, **given})


@pytest.fixture(scope="session")
def make_answer() -> Callable[..., Answer]:
    return _make_answer


CLIENT = TargetClient(TargetSettings())


def _made_report(
    answers: dict[str, list[Answer]],
    *,
    rtt_ms: float = 80.0,
    verdicts: dict[str, list[Verdict]] | None = None,
    num_clients: int | None = None,
    kinds: Mapping[str, ProxyKind] | None = None,
    tallies: Mapping[str, Tally] | None = None,
    front_rtt_ms: float = 0.0,
) -> Report:
    """A report of answers made by hand, by label: "target ...", "own draft ..." or "specproxy".

    Args:
        num_clients: of a sweep over clients; else there is one.
        kinds, tallies: of the proxies, by label.
    """
    results = []
    options = BenchOptions()
    if num_clients is not None:
        options = BenchOptions(num_clients=num_clients, throughput=True)
    for label, said in answers.items():
        name: Any = "native" if label.startswith("own") else label.split()[0]
        draft_n = 8 if name == "native" else None
        judged = (verdicts or {}).get(label, [Verdict() for _ in said])
        arm = Arm(name, label, CLIENT, CLIENT, draft_n, kind=(kinds or {}).get(label))
        prompts, warm_up = PROMPTS[: len(said)], WarmUp(1.0, 0.0, 0, 3)
        result = ArmResult(arm, prompts, tuple(said), tuple(judged), warm_up, {}, options)
        results.append(replace(result, tally=(tallies or {}).get(label)))
    num_prompts = len(results[0].answers)
    return Report(
        results,
        PROMPTS[:num_prompts],
        options,
        rtt_ms=rtt_ms,
        num_workers=2,
        mode="seeding",
        llama_build="b1",
        front_rtt_ms=front_rtt_ms,
    )


@pytest.fixture(scope="session")
def made_report() -> Callable[..., Report]:
    return _made_report


class ScriptedArms:
    """Starts arms over scripted targets; everything ends with the fixture.

    Attributes:
        targets: by the arms' labels.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self.targets: dict[str, ScriptedTarget] = {}
        self._stack = stack

    async def plain(
        self,
        language: Language,
        *,
        name: Any = "target",
        label: str = "target alone",
        pass_ms: float = 1.0,
        new_length_ms: float = 0.0,
    ) -> Arm:
        """A server that does not speculate."""
        client = await self._server(language, label, pass_ms=pass_ms, has_ngram_pool=False)
        self.targets[label].clock.new_length_ms = new_length_ms
        return Arm(name, label, client, client)

    async def proxied(
        self, language: Language, drafter: Drafter | None = None, *, pass_ms: float = 1.0
    ) -> Arm:
        """A server that takes seeds, behind a proxy with a scripted draft.

        Args:
            pass_ms: once the proxy is ready; where it counts how much is sped up, passes must be
                long enough to be told apart.
        """
        label = "specproxy (seeding)"
        server = await self._server(language, label, has_ngram_pool=True)
        settings = load(
            None,
            target={"url": f"http://{server.name}"},
            listen={"port": 0},
            seeding={"warm": "never", "n_match": 4},
        )
        drafter = drafter or ScriptedDrafter(language)
        running = await self._stack.enter_async_context(proxy(settings, drafter))
        with Step(Console(quiet=True), "waiting") as step:
            await speculating(running.route, step)
        self.targets[label].clock.pass_ms = pass_ms
        front = await self._stack.enter_async_context(TargetClient(TargetSettings(url=running.url)))
        return Arm("specproxy", label, front, server)

    async def _server(
        self, language: Language, label: str, *, has_ngram_pool: bool, pass_ms: float = 0.0
    ) -> TargetClient:
        target = ScriptedTarget(
            language, num_slots=3, n_max=16, has_ngram_pool=has_ngram_pool, pass_ms=pass_ms
        )
        running = self.targets[label] = await self._stack.enter_async_context(target)
        client = TargetClient(TargetSettings(url=running.url))
        return await self._stack.enter_async_context(client)


@asynccontextmanager
async def _started() -> AsyncIterator[ScriptedArms]:
    async with AsyncExitStack() as stack:
        yield ScriptedArms(stack)


@pytest.fixture
async def scripted_arms() -> AsyncIterator[ScriptedArms]:
    async with _started() as arms:
        yield arms
