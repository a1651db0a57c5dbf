"""A model over two real workers: what it predicts, and what it leaves behind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specproxy.errors import PoolError
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.devices import add_rpc_workers, local_devices
from specproxy.llama.model import Model
from specproxy.llama.rpc import check_worker
from specproxy.llama.vocabulary import ModelVocabulary
from tests.llama.conftest import RunningWorker

pytestmark = pytest.mark.real
PATIENCE_S = 30.0
# The same operators on the same processor, but split into other graphs.
TOLERANCE = 0.05


def read(model: Model, prompt: list[int]) -> np.ndarray:
    context = Context(model, num_tokens=256, num_batch_tokens=64)
    try:
        batch = Batch(64)
        row = batch.extend(prompt, 0, 0, wants_last_logits=True)
        assert context.decode(batch)
        context.synchronize()
        return context.logits(row).copy()
    finally:
        context.close()


def test_the_processor_is_a_local_device() -> None:
    (processor,) = [device for device in local_devices() if device.kind == "cpu"]
    assert processor.name == "CPU"
    assert 0 < processor.memory_free_bytes <= processor.memory_total_bytes


@pytest.mark.parametrize("output_local", [False, True])
def test_two_workers_predict_what_one_process_does(
    start_worker: Callable[[], RunningWorker],
    draft_model_path: Path,
    model: Model,
    vocabulary: ModelVocabulary,
    output_local: bool,
) -> None:
    endpoints = [start_worker().endpoint for _ in range(2)]
    devices = add_rpc_workers(endpoints, timeout_s=PATIENCE_S)
    assert [device.description for device in devices] == endpoints
    assert {device.kind for device in devices} == {"rpc"}
    assert all(device.memory_free_bytes > model.num_bytes for device in devices)
    remote = Model(
        draft_model_path,
        num_gpu_layers=-1,
        devices=[device.handle for device in devices],
        tensor_split=[1, 1],
        output_local=output_local,
    )
    try:
        for endpoint in endpoints:  # both hold layers, so both have a client now
            with pytest.raises(PoolError, match="did not answer"):
                check_worker(endpoint, 0.2)
        prompt = vocabulary.tokenize("The capital of France is Paris. The capital of Italy is")
        over_the_pool = read(remote, prompt)
    finally:
        remote.close()
    assert np.abs(over_the_pool - read(model, prompt)).max() < TOLERANCE
    for endpoint in endpoints:
        check_worker(endpoint, PATIENCE_S)


def test_a_worker_that_is_not_there_is_an_error_and_no_abort(
    start_worker: Callable[[], RunningWorker],
) -> None:
    worker = start_worker()
    worker.process.kill()
    worker.process.wait()
    with pytest.raises(PoolError, match="No worker can be reached"):
        add_rpc_workers([worker.endpoint])
