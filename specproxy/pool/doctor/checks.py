"""The checks on models, workers, links and the proxy. Pure: what was examined in, findings out."""

from collections.abc import Callable, Iterator

from specproxy.pool.doctor.examined import Examined, ExaminedWorker
from specproxy.pool.doctor.finding import Finding
from specproxy.pool.doctor.flags import check_flags
from specproxy.pool.gguf.vocabulary import compare
from specproxy.pool.keys import CLIENTS_VARIABLE
from specproxy.pool.poolfile import public_reason
from specproxy.pool.versions import compare_versions

Check = Callable[[Examined], Iterator[Finding]]

_SLOWER = 2.0
_SLOWER_MS = 5.0
"""How much slower than the file says a link must be to be worth a word."""


def diagnose(examined: Examined) -> list[Finding]:
    """All findings, in the order in which a pool is built."""
    return [finding for check in CHECKS for finding in check(examined)]


def check_files(examined: Examined) -> Iterator[Finding]:
    """What is broken, missing or contradicts itself."""
    for name, error in examined.faults:
        yield Finding(name, "error", str(error), error.remedy)
    pool = examined.pool
    if examined.target is None and not any(name == "target-model" for name, _ in examined.faults):
        here = "" if pool.coordinator.ssh else ", where the coordinator is to run"
        yield Finding(
            "target-model",
            "warning" if pool.coordinator.ssh else "error",
            f"The target {pool.target.model} is not on this machine{here}.",
            "Copy it there (specproxy distribute), or mend target.model.",
        )
    if pool.draft is None:
        yield Finding(
            "draft-model",
            "warning",
            "No draft is named, so nothing is sped up.",
            "Set draft.model.",
        )
    elif examined.draft is None and not any(name == "draft-model" for name, _ in examined.faults):
        yield Finding(
            "draft-model",
            "error",
            f"The draft {pool.draft.model} is not on this machine.",
            "The proxy reads it where it runs: copy it here, or mend draft.model.",
        )


def check_pair(examined: Examined) -> Iterator[Finding]:
    """Whether the draft suits the target."""
    if examined.target is None or examined.draft is None:
        return
    pairing = compare(examined.target, examined.draft)
    remedy = "Use a small model of the target's own family and generation."
    if not pairing.is_fit:
        yield Finding(
            "vocabulary", "error", f"The draft cannot be used: {pairing.difference}.", remedy
        )
        return
    yield Finding("vocabulary", "ok", "Draft and target have the same vocabulary.")
    for doubt in pairing.doubts:
        yield Finding("draft-doubt", "warning", f"{doubt[0].upper()}{doubt[1:]}.", remedy)


def check_memory(examined: Examined) -> Iterator[Finding]:
    """Whether layers and cache fit."""
    plan = examined.plan
    if plan is None or not plan.loads:
        return
    tight = [load.place.name for load in plan.loads if not load.fits]
    for problem in plan.problems:
        if "fit" in problem or "memory of" in problem:
            text, _, remedy = problem.partition(". ")
            yield Finding("memory", "error", f"{text}.", remedy)
    if not tight:
        yield Finding("memory", "ok", "The model and its cache fit into the devices' memory.")


def check_binds(examined: Examined) -> Iterator[Finding]:
    """Where workers listen."""
    for worker in examined.pool.workers:
        reason = public_reason(worker.host)
        if reason is not None:
            yield Finding(
                "public-bind",
                "error",
                f"Worker {worker.name}: {reason}, and llama.cpp's RPC has no authentication.",
                "Bind it to the machine's address in the LAN or the VPN.",
            )


def check_workers(examined: Examined) -> Iterator[Finding]:
    """Whether they are there and speak the same protocol."""
    known = []
    for worker in examined.workers:
        name = worker.section.name
        if worker.spoken is None:
            yield Finding("worker", "ok", f"Worker {name} is in use.")
        elif worker.spoken.version is None:
            yield Finding(
                "worker", "error", f"Worker {name}: {worker.spoken.reason}", _start(worker)
            )
        else:
            known.append(worker.spoken)
            state = "answers" if worker.is_running else "can be started"
            yield Finding("worker", "ok", f"Worker {name} {state}, RPC {worker.spoken.text}.")
    speaks = examined.speaks
    if speaks is None or speaks.version is None:
        reason = speaks.reason if speaks is not None else ""
        yield Finding(
            "version",
            "warning",
            f"The coordinator's version of RPC cannot be found out. {reason}".strip(),
            "Compare it by hand: the same llama.cpp on all machines.",
        )
        return
    for text in compare_versions(speaks, known):
        sentence, _, remedy = text.partition(": ")
        yield Finding("version", "error", f"{sentence}.", f"{remedy[0].upper()}{remedy[1:]}")


def check_links(examined: Examined) -> Iterator[Finding]:
    """Relayed or slow ways to workers."""
    for worker in examined.workers:
        name, link = worker.section.name, worker.section.link
        if worker.path is not None and worker.path.is_relayed:
            yield Finding(
                "relayed-path",
                "warning",
                f"Tailscale reaches worker {name} through {worker.path.way}, "
                f"{worker.path.rtt_ms:g} ms.",
                "Open UDP 41641 on one side, or allow NAT-PMP/UPnP; see docs/wan.md.",
            )
        slow = worker.rtt_ms is not None and (
            worker.rtt_ms > max(link.rtt_ms * _SLOWER, link.rtt_ms + _SLOWER_MS)
        )
        if slow:
            yield Finding(
                "slow-link",
                "warning",
                f"The round trip to worker {name} is {worker.rtt_ms:.0f} ms; the file says "
                f"{link.rtt_ms:g} ms.",
                "Look at Wi-Fi and VPN, or set link.rtt_ms to what it is.",
            )


def check_coordinator(examined: Examined) -> Iterator[Finding]:
    """Whether it is up, tells its slots, and has one for seeds."""
    server, pool = examined.server, examined.pool
    if server.health is None:
        yield Finding(
            "coordinator",
            "error",
            f"No coordinator answers at {pool.coordinator.host}:{pool.coordinator.port}.",
            "Start it: `specproxy pool up`, or the line of `specproxy pool plan`.",
        )
        return
    if server.health != 200:
        yield Finding(
            "coordinator",
            "warning",
            f"The coordinator is not ready (status {server.health}).",
            "Wait until it has sent its weights to the workers; its log tells how far it is.",
        )
        return
    if server.num_slots is None:
        yield Finding("coordinator", "error", server.reason, "Give doctor the coordinator's key.")
        return
    yield Finding("coordinator", "ok", f"The coordinator is well, with {server.num_slots} slots.")
    if pool.coordinator.kind == "specproxy":
        return
    if server.num_slots < 2:
        yield Finding(
            "seed-slot",
            "error",
            "The coordinator has one slot: none is left for seeds, so nothing is sped up.",
            f"Start it with -np {pool.num_slots}: one slot for each user, and one for seeds.",
        )
    if server.slot_context and server.slot_context * 2 <= pool.target.context_tokens:
        yield Finding(
            "kv-unified",
            "error",
            f"Each slot has {server.slot_context} tokens of {pool.target.context_tokens}: the "
            "KV cache is split among them, and so is every pass.",
            "Start it with --kv-unified.",
        )


def check_proxy(examined: Examined) -> Iterator[Finding]:
    """Whether the proxy speculates."""
    if examined.pool.proxy is None or examined.server.health != 200:
        return
    proxy = examined.proxy
    if proxy.http in (401, 403):
        yield Finding(
            "proxy",
            "warning",
            "The proxy answers, but wants a key.",
            f"Set {CLIENTS_VARIABLE} to its listen.api_key, and ask again.",
        )
    elif not proxy.mode:
        yield Finding("proxy", "error", "The proxy does not answer.", "Start it: specproxy serve.")
    elif proxy.mode in ("passthrough", "starting"):
        yield Finding(
            "proxy",
            "warning",
            f"The proxy does not speculate: {proxy.reason or proxy.mode}.",
            "Mend what it says; `starting` passes by itself.",
        )
    else:
        yield Finding("proxy", "ok", f"The proxy speculates: {proxy.mode}.")


def _start(worker: ExaminedWorker) -> str:
    where = worker.section.ssh or worker.section.host
    return (
        f"On {where}: ggml-rpc-server -H {worker.section.host} -p {worker.section.port}; and let "
        "no firewall stand between."
    )


CHECKS: tuple[Check, ...] = (
    check_files,
    check_pair,
    check_memory,
    check_binds,
    check_workers,
    check_links,
    check_coordinator,
    check_flags,
    check_proxy,
)
