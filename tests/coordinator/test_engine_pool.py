"""The engine over two real workers: the same answers as in one process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from specproxy.coordinator.engine import LlamaEngine
from specproxy.coordinator.generation import GenerationRequest
from specproxy.coordinator.options import EngineOptions
from specproxy.llama.devices import add_rpc_workers
from specproxy.llama.model import Model
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from specproxy.pool.processes import ChildProcess, free_ports, is_listening
from tests.coordinator.engine_parts import GREEDY, Grower, PlainDecoder, answer, assert_same

pytestmark = pytest.mark.real
TEXTS = ("The village lay by the sea, and every morning", "1, 2, 3, 4, 5, 6, 7,")


@pytest_asyncio.fixture
async def engine(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path
) -> AsyncIterator[LlamaEngine]:
    ports = free_ports(2)
    workers = []
    try:
        for port in ports:
            command = [binaries.worker, "-H", "127.0.0.1", "-p", str(port), "-t", "1"]
            worker = await ChildProcess.start(f"worker {port}", command, tmp_path / f"{port}.log")
            workers.append(worker)

            async def listening(port: int = port) -> bool:
                return is_listening(port)

            await worker.wait_until(listening, timeout_s=30)
        engine = await asyncio.to_thread(build, demo_models.target, ports)
        yield engine
        await engine.aclose()
    finally:
        for worker in workers:
            await worker.aclose()


def build(path: Path, ports: list[int]) -> LlamaEngine:
    devices = add_rpc_workers([f"127.0.0.1:{port}" for port in ports])
    handles = [device.handle for device in devices]
    model = Model(path, num_gpu_layers=-1, devices=handles, output_local=True)
    return LlamaEngine(model, EngineOptions(num_places=2, context_tokens=512, warm="auto"))


async def test_a_pool_answers_as_one_process(engine: LlamaEngine, demo_models: DemoModels) -> None:
    model = Model(demo_models.target)
    plain = PlainDecoder(model)
    vocabulary = engine.vocabulary
    requests = [
        GenerationRequest(tuple(vocabulary.tokenize(text)), GREEDY, max_tokens=16, drafted=True)
        for text in TEXTS
    ]
    truths = [plain.greedy(request.prompt, 16, vocabulary.is_end) for request in requests]
    answers = await asyncio.gather(
        *(
            answer(engine, request, Grower(kind, [t.token for t in truth], len(vocabulary)))
            for request, truth, kind in zip(requests, truths, ("branchy", "perfect"), strict=True)
        )
    )
    for truth, found in zip(truths, answers, strict=True):
        assert_same(truth, found.tokens, "pool")
        assert found.num_accepted > 4
    plain.close()
    model.close()
