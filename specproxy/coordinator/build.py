"""From settings to a loaded model: devices, their order, the engine over them."""

from dataclasses import dataclass

from specproxy.coordinator.engine import LlamaEngine
from specproxy.coordinator.options import EngineOptions
from specproxy.coordinator.served import ServedModel
from specproxy.llama.devices import Device, add_rpc_workers, local_devices
from specproxy.llama.model import Model
from specproxy.settings import CoordinatorSettings

_HERE = ("gpu", "igpu")


@dataclass(frozen=True, slots=True)
class Devices:
    """Where the model will lie, in its order.

    Attributes:
        ordered: the workers first and this machine's GPUs last: the last one computes the logits,
            which then need not cross the link.
        processor: this machine's; it has what no other takes.
    """

    ordered: tuple[Device, ...]
    processor: Device
    output_local: bool


def find_devices(settings: CoordinatorSettings) -> Devices:
    """Connect to the workers and list what is here. Blocks.

    Raises:
        ConfigError: a worker's address is none.
        PoolError: a worker cannot be reached, is busy or of another version.
        SetupError: no libllama, or one without RPC.
    """
    workers = add_rpc_workers(settings.workers) if settings.workers else []
    local = local_devices()
    here = [device for device in local if device.kind in _HERE]
    return Devices(
        ordered=(*workers, *here),
        processor=next(device for device in local if device.kind == "cpu"),
        output_local=settings.output_local and bool(workers) and not here,
    )


def build(settings: CoordinatorSettings, devices: Devices) -> ServedModel:
    """The loaded model with an engine over it; whoever has it closes `engine`. Blocks.

    Raises:
        ConfigError: no such file, or it cannot be read.
        SpecproxyError: there is no memory for its context.
    """
    model = Model(
        settings.model,
        num_gpu_layers=settings.gpu_layers if devices.ordered else 0,
        devices=[device.handle for device in devices.ordered] or None,
        tensor_split=settings.tensor_split,
        output_local=devices.output_local,
    )
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
