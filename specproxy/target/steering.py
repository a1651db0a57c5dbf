"""Steering: a request that cannot name its slot gets the one it should have.

Without likeness (`-sps 0`) llama-server gives it the idle slot that was used least recently. So
the other idle ones are used first, by empty prompts: the server answers them between two passes,
evaluates nothing, and the slot keeps its prefix cache. Source: `get_available_slot` and "empty
prompt" in tools/server/server-context.cpp.

Invariant: where it fails the target chooses as it likes; the request goes all the same.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import structlog

from specproxy.core.tasks import spawn, stop
from specproxy.errors import TargetError
from specproxy.target.client import TargetClient

log = structlog.get_logger(__name__)

QUEUED_S = 0.5
"""By then the target has got them, even if it takes them up after a long pass only."""


@asynccontextmanager
async def steered(client: TargetClient, passed_over: Collection[int]) -> AsyncIterator[None]:
    """Within the context one request gets none of the slots `passed_over`, which are idle."""
    uses = [spawn(_use(client, slot), name=f"use slot {slot}") for slot in passed_over]
    try:
        if uses:
            await asyncio.wait(uses, timeout=QUEUED_S)
        yield
    finally:
        for use in uses:
            await stop(use)


async def _use(client: TargetClient, slot: int) -> None:
    try:
        body = {"prompt": [[]], "n_predict": 1, "id_slot": slot}
        await client.json("POST", "/completion", body)
    except TargetError as error:
        log.debug("the target's choice of a slot is left to it", reason=str(error))
