"""The shipped draft model, loaded once for all tests of the bindings; workers on loopback."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from specproxy.errors import PoolError
from specproxy.llama.model import Model
from specproxy.llama.rpc import greet
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import free_ports

START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class RunningWorker:
    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


@pytest.fixture(scope="session")
def draft_model_path(demo_models: DemoModels) -> Path:
    return demo_models.draft


@pytest.fixture(scope="session")
def model(draft_model_path: Path) -> Iterator[Model]:
    loaded = Model(draft_model_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def vocabulary(model: Model) -> ModelVocabulary:
    return ModelVocabulary(model)


@pytest.fixture
def start_worker(binaries: LlamaBinaries) -> Iterator[Callable[[], RunningWorker]]:
    """Starts stock workers of one thread each, which end with the test."""
    with contextlib.ExitStack() as stack:

        def start() -> RunningWorker:
            (port,) = free_ports(1)
            command = [binaries.worker, "-H", "127.0.0.1", "-p", str(port), "-t", "1"]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            stack.callback(process.kill)
            wait_until_serving(f"127.0.0.1:{port}", process)
            return RunningWorker(f"127.0.0.1:{port}", process)

        yield start


def wait_until_serving(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    """Greet the worker until it answers."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            greet(endpoint, timeout_s=START_TIMEOUT_S)
            return
        except PoolError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
