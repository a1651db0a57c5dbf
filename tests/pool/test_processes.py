"""Child processes: they report a death at once, and never outlive us."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specproxy.core.tasks import spawn
from specproxy.errors import PoolError
from specproxy.pool.link import Link
from specproxy.pool.processes import ChildProcess, free_ports, is_listening

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""

PARENT = """
import asyncio, pathlib, sys
from specproxy.pool.link import Link
from specproxy.pool.processes import ChildProcess

async def main():
    log = pathlib.Path(sys.argv[1])
    child = await ChildProcess.start("child", [sys.executable, "-c", sys.argv[2]], log)
    async with Link([1], 1.0, log) as link:
        print(child.pid, link._process.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def python(code: str, log: Path) -> ChildProcess:
    return await ChildProcess.start("a child", [sys.executable, "-c", code], log)


async def stubborn(log: Path) -> ChildProcess:
    """A child that has said that it ignores SIGTERM."""
    child = await python(STUBBORN, log)

    async def ready() -> bool:
        return "ready" in child.log_tail()

    await child.wait_until(ready, timeout_s=20)
    return child


def is_running(pid: int) -> bool:
    """Whether `pid` runs; one that waits to be reaped by somebody else has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_until_gone(*pids: int) -> None:
    deadline_s = time.monotonic() + 20
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline_s, "a child outlived its parent"
        time.sleep(0.02)


async def never() -> bool:
    return False


async def test_a_death_at_start_is_told_at_once_with_the_log(tmp_path: Path) -> None:
    child = await python("import sys; print('no such device'); sys.exit(7)", tmp_path / "log")
    with pytest.raises(PoolError, match=r"(?s)a child ended with code 7.*no such device.*log"):
        await child.wait_until(never, timeout_s=600)
    await child.aclose()


async def test_what_does_not_get_ready_is_told_apart(tmp_path: Path) -> None:
    child = await python("import time; time.sleep(600)", tmp_path / "log")
    waits: list[float] = []
    with pytest.raises(PoolError, match="was not ready after"):
        await child.wait_until(never, timeout_s=0.2, progress=waits.append)
    assert waits == sorted(waits)
    assert waits
    await child.aclose()
    assert not is_running(child.pid)


async def test_who_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = await stubborn(tmp_path / "log")
    await child.aclose(grace_s=0.1)
    assert not is_running(child.pid)
    assert f"exit {-signal.SIGKILL}" in repr(child)
    await child.aclose()


async def test_a_cancelled_close_still_ends_the_child(tmp_path: Path) -> None:
    child = await stubborn(tmp_path / "log")
    closing = spawn(child.aclose(grace_s=0.2), name="close")
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not is_running(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_die_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log"), STUBBORN]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        child, relay = map(int, parent.stdout.readline().split())
        assert is_running(child)
        assert is_running(relay)
        parent.send_signal(number)
        parent.wait(20)
        wait_until_gone(child, relay)


async def test_the_link_relays_delays_and_ends(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def round_trip_s(port: int) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start_s = time.monotonic()
        writer.write(b"x")
        await reader.readexactly(1)
        writer.close()
        await writer.wait_closed()
        return time.monotonic() - start_s

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Link([port, port], 50.0, tmp_path / "log") as link:
        first, second = link.ports
        assert first != second
        assert await round_trip_s(first) >= 0.05
        await link.set_rtt_ms(100.0)
        assert link.rtt_ms == 100.0
        assert await round_trip_s(second) >= 0.1
    assert not is_listening(first)
    server.close()
    await asyncio.sleep(0)


async def test_a_relay_that_died_is_told(tmp_path: Path) -> None:
    async with Link([1], 1.0, tmp_path / "log") as link:
        assert link._process is not None
        os.kill(link._process.pid, signal.SIGKILL)
        with pytest.raises(PoolError, match="relay"):
            await link.set_rtt_ms(2.0)


def test_free_ports_are_distinct_and_listening_is_seen_without_connecting() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports[0]))
        assert not is_listening(ports[0])
        server.listen()
        assert is_listening(ports[0])
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not is_listening(ports[0])
