"""Tasks keep their names and end when told to."""

import asyncio
import gc

import pytest

from specproxy.core.tasks import spawn, stop


async def test_a_task_is_named_and_kept_while_it_runs() -> None:
    done = asyncio.Event()

    async def work() -> str:
        await done.wait()
        return "ok"

    task = spawn(work(), name="work")
    assert task.get_name() == "work"
    gc.collect()
    done.set()
    assert await task == "ok"


async def test_stop_waits_for_the_end_whatever_it_raises() -> None:
    ended: list[str] = []

    async def work(how: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(how)
            if how == "raises":
                raise RuntimeError(how)

    for how in ("ends", "raises"):
        task = spawn(work(how), name=how)
        await asyncio.sleep(0)
        await stop(task)
        assert task.done()
        await stop(task)
    assert ended == ["ends", "raises"]
    with pytest.raises(RuntimeError):
        task.result()


async def test_stop_asks_again_when_a_cancellation_is_swallowed() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()  # as Python 3.11's wait_for may

    task = spawn(work(), name="stubborn")
    await asyncio.sleep(0)
    await stop(task, again_s=0.05)
    assert task.cancelled()
