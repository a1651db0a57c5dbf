"""The proxy before scripted targets, and scripted controls beside them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from specproxy.equivalence.check import Pair
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing import Language, ScriptedDrafter, ScriptedTarget
from specproxy.testing.coordinated import coordinated
from specproxy.testing.rig import proxied

StartPair = Callable[..., AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def pair_of(title: str, front: str, control: str) -> AsyncIterator[Pair]:
    async with (
        TargetClient(TargetSettings(url=front)) as one,
        TargetClient(TargetSettings(url=control)) as other,
    ):
        yield Pair(title, one, other)


@asynccontextmanager
async def seeding_pair(
    language: Language,
    *,
    control: Language | None = None,
    n_ctx: int = 1024,
    pass_ms: float = 1.0,
) -> AsyncIterator[Pair]:
    """The proxy that seeds, and a target without a pool.

    Args:
        language: of the proxied target and the draft.
        control: the other target's; the same by default.
        pass_ms: of the proxied one; where it counts how much is sped up, passes must be long
            enough to be told apart.
    """
    drafter = ScriptedDrafter(language)
    async with (
        proxied(
            language, drafter=drafter, probed=True, pass_ms=pass_ms, num_slots=5, n_ctx=n_ctx
        ) as rig,
        ScriptedTarget(control or language, has_ngram_pool=False, n_ctx=n_ctx) as alone,
        pair_of("seeding", rig.server.url, alone.url) as pair,
    ):
        yield pair


@asynccontextmanager
async def coordinator_pair(language: Language) -> AsyncIterator[Pair]:
    """The proxy before a coordinator, and a coordinator nobody drafts for."""
    async with (
        coordinated(language) as rig,
        pair_of("coordinator", rig.server.url, rig.oracle.url) as pair,
    ):
        yield pair


@pytest.fixture
def start_seeding() -> StartPair:
    return seeding_pair


@pytest.fixture
def start_coordinator() -> StartPair:
    return coordinator_pair
