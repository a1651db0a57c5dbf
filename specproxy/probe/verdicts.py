"""Which ways a probed target can be sped up, and what to change. Pure."""

import shlex
from dataclasses import dataclass

from specproxy.core.worth import N_MATCH, N_MAX
from specproxy.probe.report import Report

SEEDING_FLAGS = (
    f"--spec-type ngram-mod --spec-ngram-mod-n-match {N_MATCH}"
    f" --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max {N_MAX}"
)
MIN_FANOUT_SLOTS = 3
GOOD_FANOUT_SLOTS = 8
NUM_USERS = 2
"""Conversations at once that a proposed command has slots for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One way.

    Attributes:
        works: now, as the target runs.
        reason: why, or why not.
        remedy: what would make it work, or work better; empty: nothing.
    """

    way: str
    works: bool
    reason: str
    remedy: str = ""


def verdicts(report: Report) -> list[Verdict]:
    """All ways, the best first."""
    return [
        _coordinator(report),
        _seeding(report),
        _fanout(report),
        Verdict("passthrough", True, "every request passes unchanged"),
    ]


def best(report: Report) -> Verdict:
    """What specproxy will do."""
    return next(verdict for verdict in verdicts(report) if verdict.works)


def command(report: Report) -> str:
    """The llama-server command for the best speed; empty for a coordinator."""
    if report.takes_drafts:
        return ""
    model = shlex.quote(report.model_path or "MODEL.gguf")
    num_context = max(report.num_context, 4096)
    return (
        f"llama-server --model {model} -c {num_context} -np {NUM_USERS + 1} --kv-unified"
        f" --cache-ram 0 -sps 0 {SEEDING_FLAGS} --slots --metrics"
    )


def _coordinator(report: Report) -> Verdict:
    if report.takes_drafts:
        return Verdict("coordinator", True, "it verifies drafts in passes of its own")
    return Verdict(
        "coordinator",
        False,
        "it is a llama-server",
        "`specproxy coordinator` runs the model over the same workers, and faster",
    )


def _seeding(report: Report) -> Verdict:
    if report.takes_drafts:
        return Verdict("seeding", False, "not needed")
    if report.num_slots < 2:
        return Verdict("seeding", False, "it has one slot, and seeds need one", "-np 3 and more")
    pool = report.pool
    if pool.n_match is None:
        if "ngram-mod" in report.speculation:
            return Verdict(
                "seeding",
                False,
                "its n-gram pool proposes nothing for short seeds",
                f"--spec-ngram-mod-n-min 1, and --spec-ngram-mod-n-match {N_MATCH}",
            )
        return Verdict("seeding", False, "it has no n-gram pool", SEEDING_FLAGS)
    remedies = []
    if report.shares_passes is False:
        remedies.append("--kv-unified --cache-ram 0: seeds have passes of their own now")
    if pool.n_min is not None and pool.n_min > 2:
        remedies.append(f"--spec-ngram-mod-n-min 1: it is about {pool.n_min}")
    if pool.n_match > 16:
        remedies.append(
            f"--spec-ngram-mod-n-match {N_MATCH}: long keys take long to heal after a miss"
        )
    return Verdict(
        "seeding", True, f"its n-gram pool takes seeds, n_match {pool.n_match}", "; ".join(remedies)
    )


def _fanout(report: Report) -> Verdict:
    if report.takes_drafts:
        return Verdict("fanout", False, "not needed")
    flags = "-np 10 --kv-unified --cache-ram 0"
    if report.num_slots < MIN_FANOUT_SLOTS:
        plural = "" if report.num_slots == 1 else "s"
        return Verdict("fanout", False, f"it has {report.num_slots} slot{plural}", flags)
    if not report.several_prompts:
        return Verdict("fanout", False, "it does not take several prompts", "a newer llama-server")
    if report.shares_passes is False:
        return Verdict(
            "fanout",
            False,
            "prompts of different lengths do not share a pass",
            "--kv-unified --cache-ram 0",
        )
    remedy = flags if report.num_slots < GOOD_FANOUT_SLOTS else ""
    return Verdict("fanout", True, f"it has {report.num_slots} slots", remedy)
