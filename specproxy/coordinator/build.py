"""From settings to a loaded model: devices, their order, the engine over them."""

from specproxy.coordinator.engine import LlamaEngine
from specproxy.coordinator.options import EngineOptions
from specproxy.coordinator.served import ServedModel
from specproxy.llama.devices import add_rpc_workers, local_devices
from specproxy.llama.model import Model
from specproxy.settings import CoordinatorSettings

_HERE = ("gpu", "igpu")


def load_model(settings: CoordinatorSettings) -> Model:
    """The model over its workers and this machine's GPUs. Blocks.

    The workers come first and this machine's devices last: the last one computes the logits, which
    then need not cross the link. Without a GPU here the processor keeps the output layer.

    Raises:
        ConfigError: no such file, it cannot be read or does not fit, a worker is no endpoint.
        PoolError: a worker cannot be reached, is busy or of another version.
        SetupError: no libllama, or one without RPC.
    """
    workers = add_rpc_workers(settings.workers) if settings.workers else []
    here = [device for device in local_devices() if device.kind in _HERE]
    devices = [*workers, *here]
    return Model(
        settings.model,
        num_gpu_layers=settings.gpu_layers if devices else 0,
        devices=[device.handle for device in devices] or None,
        tensor_split=settings.tensor_split,
        output_local=settings.output_local and bool(workers) and not here,
    )


def build(settings: CoordinatorSettings) -> ServedModel:
    """The loaded model with an engine over it; whoever has it closes `engine`. Blocks.

    Raises:
        ConfigError, PoolError, SetupError: as `load_model`.
        SpecproxyError: there is no memory for its context.
    """
    model = load_model(settings)
    options = EngineOptions(
        num_places=settings.num_answers,
        context_tokens=settings.context_tokens,
        num_threads=settings.num_threads,
        groups=settings.groups,
        cache_type_k=settings.cache_type_k,
        cache_type_v=settings.cache_type_v,
        warm=settings.warm,
    )
    engine = LlamaEngine(model, options)
    try:
        return ServedModel.of(engine, model)
    except BaseException:
        engine.close()
        raise
