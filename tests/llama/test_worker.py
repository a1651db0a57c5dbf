"""Serving this machine's devices: a real client, signals, and addresses that are taken."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from specproxy.errors import ConfigError, PoolError
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.devices import add_rpc_workers
from specproxy.llama.model import Model
from specproxy.llama.rpc import check_worker
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.llama.worker import devices_to_serve, serve_rpc
from specproxy.pool.processes import free_ports
from tests.llama.conftest import RunningWorker, wait_until_serving

pytestmark = pytest.mark.real
PATIENCE_S = 30.0
SCRIPT = """
import sys
from specproxy.llama.worker import devices_to_serve, serve_rpc
serve_rpc("127.0.0.1", int(sys.argv[1]), devices_to_serve(None), num_threads=1, cache=False)
"""


@pytest.fixture
def start_own_worker() -> Iterator[Callable[[], RunningWorker]]:
    with contextlib.ExitStack() as stack:

        def start() -> RunningWorker:
            (port,) = free_ports(1)
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", SCRIPT, str(port)], stdout=subprocess.DEVNULL
                )
            )
            stack.callback(process.kill)
            wait_until_serving(f"127.0.0.1:{port}", process)
            return RunningWorker(f"127.0.0.1:{port}", process)

        yield start


def next_token(model: Model, prompt: list[int]) -> int:
    context = Context(model, num_tokens=256, num_batch_tokens=64)
    try:
        batch = Batch(64)
        row = batch.extend(prompt, 0, 0, wants_last_logits=True)
        assert context.decode(batch)
        return int(np.argmax(context.logits(row)))
    finally:
        context.close()


def test_a_model_over_two_workers_says_the_same_token(
    start_own_worker: Callable[[], RunningWorker],
    draft_model_path: Path,
    model: Model,
    vocabulary: ModelVocabulary,
) -> None:
    workers = [start_own_worker() for _ in range(2)]
    devices = add_rpc_workers([worker.endpoint for worker in workers], timeout_s=PATIENCE_S)
    remote = Model(
        draft_model_path, num_gpu_layers=-1, devices=[device.handle for device in devices]
    )
    prompt = vocabulary.tokenize("The capital of France is Paris. The capital of Italy is")
    try:
        assert next_token(remote, prompt) == next_token(model, prompt)
    finally:
        remote.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_idle_or_with_a_client(
    start_own_worker: Callable[[], RunningWorker], number: signal.Signals
) -> None:
    idle, busy = start_own_worker(), start_own_worker()
    host, _, port = busy.endpoint.partition(":")
    with socket.create_connection((host, int(port))):
        for worker in (idle, busy):
            worker.process.send_signal(number)
            assert worker.process.wait(PATIENCE_S) == -number


def test_it_outlives_a_client_that_left_without_waiting_for_the_answer(
    start_own_worker: Callable[[], RunningWorker],
) -> None:
    """The stock worker dies of SIGPIPE there; Python ignores that signal."""
    worker = start_own_worker()
    address = ("127.0.0.1", int(worker.endpoint.partition(":")[2]))
    with socket.create_connection(address) as first:
        for _ in range(2):
            with socket.create_connection(address) as impatient:
                impatient.sendall(bytes([14, 24]) + bytes(7) + bytes(24))
        first.close()
    check_worker(worker.endpoint, PATIENCE_S)
    assert worker.alive


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PoolError, match=f"cannot listen at 127.0.0.1:{port}") as caught:
            serve_rpc("127.0.0.1", port, [], num_threads=1, cache=False)
    assert caught.value.remedy
    with pytest.raises(PoolError, match=r"cannot listen at 192\.0\.2\.1:50052"):
        serve_rpc("192.0.2.1", 50052, [], num_threads=1, cache=False)


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (port,) = free_ports(1)
    with pytest.raises(ConfigError, match=r"Tensors cannot be kept in .*XDG_CACHE_HOME"):
        serve_rpc("127.0.0.1", port, [], num_threads=1, cache=True)


def test_devices_are_chosen_by_name() -> None:
    assert [device.name for device in devices_to_serve("CPU")] == ["CPU"]
    assert devices_to_serve(None)
    with pytest.raises(ConfigError, match=r"no device 'CUDA7'.*It has: .*CPU"):
        devices_to_serve("CUDA7")
