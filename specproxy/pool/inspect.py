"""`specproxy inspect`: what a model is and costs, whether a draft suits it, where it would lie.

Only headers are read, so it is as quick for a 400 GB model on a NAS as for a small one.
"""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from specproxy.pool.gguf.kv_cache import kv_cost
from specproxy.pool.gguf.model import ModelFile, read_model
from specproxy.pool.gguf.vocabulary import Pairing, compare
from specproxy.pool.plan import make_plan
from specproxy.pool.plan_report import as_data, layout_lines
from specproxy.pool.poolfile import PoolFile, read_pool
from specproxy.pool.sizes import bytes_text, count_text

CACHE_TYPES = ("f16", "q8_0", "q4_0")


def inspect_command(
    path: Path,
    out: Console,
    *,
    draft: Path | None = None,
    plan: Path | None = None,
    as_json: bool = False,
) -> int:
    """Describe the model at `path`; the exit code is 1 for an unfit draft or what does not fit.

    Args:
        draft: a model to compare with.
        plan: a pool's file; the model takes the place of its target.

    Raises:
        ConfigError: a file is missing or broken.
    """
    model = read_model(path)
    pairing = None if draft is None else compare(model, read_model(draft))
    pool = None if plan is None else _with_target(read_pool(plan), path)
    planned = None if pool is None else make_plan(pool, model)
    if as_json:
        data = model_data(model)
        if pairing is not None:
            data["draft"] = {"difference": pairing.difference, "doubts": pairing.doubts}
        if planned is not None:
            data["plan"] = as_data(planned)
        out.print_json(json.dumps(data))
    else:
        lines = model_lines(model)
        lines += [] if pairing is None else pairing_lines(pairing)
        if planned is not None:
            lines += ["", *layout_lines(planned)]
            lines += [f"problem: {text}" for text in planned.problems]
        for line in lines:
            out.print(_printable(line), highlight=False, markup=False, soft_wrap=True)
    unfit = pairing is not None and not pairing.is_fit
    return 1 if unfit or (planned is not None and planned.problems) else 0


def model_data(model: ModelFile) -> dict[str, Any]:
    """A model for machines; sizes in bytes."""
    cost = kv_cost(model)
    return {
        "name": model.name,
        "files": [str(path) for path in model.paths],
        "file_bytes": model.file_bytes,
        "architecture": model.architecture,
        "family": family_of(model),
        "num_layers": model.num_layers,
        "num_parameters": model.num_parameters,
        "types": model.types,
        "layer_bytes": model.layer_bytes,
        "embedding_bytes": model.embedding_bytes,
        "output_bytes": model.output_bytes,
        "context_length": model.context_length,
        "embedding_length": model.embedding_length,
        "num_vocab": model.num_vocab,
        "tokenizer": model.text("tokenizer.ggml.model"),
        "pretokenizer": model.text("tokenizer.ggml.pre"),
        "has_chat_template": bool(model.chat_template),
        "kv_bytes_per_token": {kind: cost.token_bytes(kind, kind) for kind in CACHE_TYPES},
        "kv_is_bound": cost.is_bound,
    }


def model_lines(model: ModelFile) -> list[str]:
    """A model for people."""
    data = model_data(model)
    parts = f" in {len(model.paths)} parts" if len(model.paths) > 1 else ""
    lines = [
        f"{data['name']}: {model.path}{parts}, {bytes_text(model.file_bytes)}",
        f"  architecture   {data['architecture']}, family {data['family']}",
        f"  layers         {model.num_layers}, width {model.embedding_length}",
        f"  context        {model.context_length or 'not said'} tokens",
        f"  vocabulary     {model.num_vocab} tokens, {data['tokenizer'] or 'none'}"
        f" {data['pretokenizer']}".rstrip(),
        f"  chat template  {_template(model)}",
    ]
    if model.is_vocabulary_only:
        lines.append("  weights        none: a vocabulary only")
    else:
        kinds = ", ".join(
            f"{kind} {bytes_text(size)}" for kind, size in list(model.types.items())[:4]
        )
        tied = "" if model.has_own_output else " (the embedding, once more)"
        lines += [
            f"  parameters     {count_text(model.num_parameters)}",
            f"  weights        {bytes_text(model.weight_bytes)}: {kinds}",
            f"  per layer      {_range(model.layer_bytes)}",
            f"  embedding      {bytes_text(model.embedding_bytes)}",
            f"  output         {bytes_text(model.output_bytes)}{tied}",
        ]
    costs = ", ".join(
        f"{kind} {bytes_text(size)}" for kind, size in data["kv_bytes_per_token"].items()
    )
    bound = "; at most: it has layers with a sliding window" if data["kv_is_bound"] else ""
    return [*lines, f"  KV per token   {costs}{bound}"]


def pairing_lines(pairing: Pairing) -> list[str]:
    """Whether a draft suits."""
    verdict = (
        "the draft has the target's vocabulary"
        if pairing.is_fit
        else f"the draft cannot be used: {pairing.difference}"
    )
    return [
        f"  draft          {verdict}",
        *(f"                 but {text}" for text in pairing.doubts),
    ]


def family_of(model: ModelFile) -> str:
    """By its own words, else by its tokenizer: models of one family share it."""
    said = model.text("general.basename") or model.text("tokenizer.ggml.pre")
    return (said or model.architecture).lower()


def _with_target(pool: PoolFile, path: Path) -> PoolFile:
    return pool.model_copy(update={"target": pool.target.model_copy(update={"model": path})})


def _printable(line: str) -> str:
    """A file's own words must not steer the terminal."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in line)


def _template(model: ModelFile) -> str:
    template = model.chat_template
    return f"{len(template)} characters" if template else "none: chats need --chat-template"


def _range(sizes: tuple[int, ...]) -> str:
    smallest, largest = min(sizes, default=0), max(sizes, default=0)
    return (
        bytes_text(largest)
        if smallest == largest
        else f"{bytes_text(smallest)} to {bytes_text(largest)}"
    )
