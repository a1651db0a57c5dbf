"""`specproxy pool plan`: a plan on paper, for people and for machines."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from specproxy.pool.plan import Plan, load_plan
from specproxy.pool.sizes import bytes_text


def plan_command(path: Path, out: Console, *, as_json: bool = False) -> int:
    """`specproxy pool plan`; the exit code is 1 where something does not fit."""
    plan = load_plan(path)
    if as_json:
        out.print_json(json.dumps(as_data(plan)))
    else:
        for line in plan_lines(plan):
            out.print(line, highlight=False, markup=False, soft_wrap=True)
    return 1 if plan.problems else 0


def as_data(plan: Plan) -> dict[str, Any]:
    """The plan for machines."""
    return {
        "pool": plan.pool.name,
        "tensor_split": plan.split,
        "output_local": plan.output_local,
        "commands": [
            {**dataclasses.asdict(command), "line": command.line} for command in plan.commands
        ],
        "devices": [
            {
                "name": load.place.name,
                "memory_bytes": load.place.memory_bytes,
                "first_layer": load.layers.start if load.layers else None,
                "num_layers": len(load.layers),
                "has_output": load.has_output,
                "weight_bytes": load.weight_bytes,
                "kv_bytes": load.kv_bytes,
                "compute_bytes": load.compute_bytes,
                "spare_bytes": load.spare_bytes,
            }
            for load in plan.loads
        ],
        "host_bytes": plan.host_bytes,
        "passes": [dataclasses.asdict(cost) for cost in plan.costs],
        "problems": plan.problems,
        "warnings": plan.warnings,
    }


def plan_lines(plan: Plan) -> list[str]:
    """The plan for people."""
    lines = [f"Pool {plan.pool.name}", ""]
    lines += layout_lines(plan)
    for command in plan.commands:
        where = command.ssh or command.host
        lines += [f"# {command.role} {command.name}, on {where}", command.line, ""]
    for cost in plan.costs:
        lines.append(
            f"A pass of {cost.num_rows} token{'s' if cost.num_rows > 1 else ''}: "
            f"{cost.num_round_trips} round trips, {bytes_text(cost.hidden_bytes)} of hidden "
            f"states, {bytes_text(cost.logit_bytes)} of logits: {cost.link_ms:.1f} ms for the "
            "links alone"
        )
    lines += [f"warning: {text}" for text in plan.warnings]
    lines += [f"problem: {text}" for text in plan.problems]
    return lines


def layout_lines(plan: Plan) -> list[str]:
    """Which layers lie where, and what is left."""
    lines = []
    for load in plan.loads:
        layers = (
            f"layers {load.layers.start}-{load.layers.stop - 1}" if load.layers else "no layers"
        )
        output = " and the output" if load.has_output else ""
        if not (load.layers or load.has_output):
            lines.append(f"{load.place.name}: no layers")
            continue
        lines.append(
            f"{load.place.name}: {layers}{output}: {bytes_text(load.weight_bytes)} weights, "
            f"{bytes_text(load.kv_bytes)} KV, {bytes_text(load.compute_bytes)} for computing; "
            f"{bytes_text(abs(load.spare_bytes))} {'left' if load.fits else 'TOO MUCH'} of "
            f"{bytes_text(load.place.memory_bytes)}, beside a margin of "
            f"{plan.pool.margin_gib:g} GiB"
        )
    if plan.loads:
        output = ", the output layer with it" if plan.output_local else ""
        lines += [f"coordinator's memory: {bytes_text(plan.host_bytes)}{output}", ""]
    return lines
