"""The flags of a running llama-server, against those that a pool needs. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specproxy.pool.doctor.examined import Examined
from specproxy.pool.doctor.finding import Finding

_LONGEST_N_MIN = 4


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A flag with its only good value, its names, and why."""

    check: str
    names: tuple[str, ...]
    value: str
    why: str


_FIXED = (
    _Wanted(
        "cache-ram",
        ("--cache-ram", "-cram"),
        "0",
        "slot states would be copied over the links, and servers stall or die",
    ),
    _Wanted(
        "slot-similarity",
        ("-sps", "--slot-prompt-similarity"),
        "0",
        "the server would choose slots by itself, also the one for seeds",
    ),
)


def check_flags(examined: Examined) -> Iterator[Finding]:
    """What its command line gets wrong; nothing if it cannot be seen."""
    argv = examined.server.argv
    if argv is None or examined.pool.coordinator.kind != "llama-server":
        return
    for wanted in _FIXED:
        said = value_of(argv, *wanted.names)
        if said != wanted.value:
            flag = wanted.names[0]
            state = f"has {flag} {said}" if said is not None else f"lacks {flag} {wanted.value}"
            yield Finding(
                wanted.check,
                "error",
                f"llama-server {state}: {wanted.why}.",
                f"Start it with {flag} {wanted.value}.",
            )
    yield from _check_speculation(argv)
    yield from _check_devices(examined, argv)


def _check_speculation(argv: Sequence[str]) -> Iterator[Finding]:
    kinds = (value_of(argv, "--spec-type") or "none").split(",")
    if "ngram-mod" not in kinds:
        yield Finding(
            "spec-type",
            "error",
            "llama-server keeps no n-gram pool, so it takes no seeds.",
            "Start it with --spec-type ngram-mod.",
        )
        return
    n_min = value_of(argv, "--spec-ngram-mod-n-min") or "48"
    if n_min.isdecimal() and int(n_min) > _LONGEST_N_MIN:
        yield Finding(
            "n-min",
            "error",
            f"llama-server proposes nothing shorter than {n_min} tokens: seeds are shorter.",
            "Start it with --spec-ngram-mod-n-min 1.",
        )


def _check_devices(examined: Examined, argv: Sequence[str]) -> Iterator[Finding]:
    devices = (value_of(argv, "--device", "-dev") or "").split(",")
    split = value_of(argv, "--tensor-split", "-ts")
    local = [device for device in devices if device and not device.startswith("RPC")]
    if local and devices[-1].startswith("RPC"):
        order = ",".join([*(each for each in devices if each.startswith("RPC")), *local])
        yield Finding(
            "device-order",
            "error",
            f"llama-server lists {devices[-1]} last, so the logits of every token cross the link.",
            f"Start it with --device {order}.",
        )
    own = [device.name for device in examined.pool.coordinator.devices]
    missing = [name for name in own if name not in devices]
    counts = len(devices) if devices != [""] else len(examined.pool.workers) + len(own)
    if missing or (split is not None and len(split.split(",")) != counts):
        wanted = ",".join(f"{share:g}" for share in examined.plan.split) if examined.plan else ""
        yield Finding(
            "tensor-split",
            "error",
            "A device has no share in llama-server's tensor split: one that takes no layers needs "
            "its 0.",
            f"List all devices, the workers' first, with --tensor-split {wanted}.",
        )


def value_of(argv: Sequence[str], *names: str) -> str | None:
    """What follows the last of the flag's names; None: it is not there."""
    for at in range(len(argv) - 2, -1, -1):
        if argv[at] in names:
            return argv[at + 1]
    return None
